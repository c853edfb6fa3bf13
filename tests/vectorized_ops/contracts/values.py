"""The contracts of arrays and of what is done value by value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from contracts.memory import (
    Draw,
    Memory,
    check_agreement,
    draw_rng,
    draw_target,
    implementation,
    not_all_numbers,
    whole_numbers,
)
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import widened
from vectorized_ops.reference.activation import FUNCTIONS


def draw_values(draw: Draw) -> tuple[int, ...]:
    """Shape of images or vectors."""
    return tuple(draw(st.integers(1, 20)) for _ in range(draw(st.sampled_from([2, 4]))))


def check_arrays(name: str, draw: Draw) -> None:
    """Arrays begin as zeros, lie in given memory too, and take fewer images than they hold."""
    seed, rng = draw_rng(draw)
    place = Memory(implementation(name), np.random.default_rng(seed))
    shape = tuple(draw(st.integers(1, 20)) for _ in range(4))
    fresh = place.operations.activations(shape)
    assert fresh.dtype == np.float32
    assert fresh.shape[0] >= shape[0]
    assert fresh.shape[1:] == shape[1:]
    assert not fresh.any()
    check_given_memory(place, fresh, shape)
    given = draw(st.integers(1, shape[0]))
    values = whole_numbers(rng, *shape)
    loaded = place.garbage(*shape)
    place.operations.load_images(values[:given], loaded)
    assert_array_equal(widened(loaded[:given]), values[:given])
    assert not loaded[given:].any()
    place.check_surroundings()


def check_given_memory(place: Memory, fresh: np.ndarray, shape: tuple[int, ...]) -> None:
    """An array in given memory lies there as one of its own would, on what the memory holds."""
    size = place.operations.activations_size(shape)
    assert size == fresh.size
    memory = np.arange(size + 5, dtype=np.float32)
    found = place.operations.activations_in(memory, shape)
    assert (found.shape, found.strides) == (fresh.shape, fresh.strides)
    assert_array_equal(np.sort(found, axis=None), np.arange(size))
    found[...] = -1
    assert (memory[:size] == -1).all()
    assert (memory[size:] > 0).all()


def check_flattening(name: str, draw: Draw) -> None:
    """Vectors hold channel by channel, and their gradient goes the way back."""
    seed, rng = draw_rng(draw)
    shape = tuple(draw(st.integers(1, 20)) for _ in range(4))
    values, vectors = whole_numbers(rng, *shape), (shape[0], shape[1] * shape[2] * shape[3])
    gradient = not_all_numbers(rng, whole_numbers(rng, *vectors))
    target = draw_target(draw, rng, *shape)

    def run(place: Memory) -> Sequence[np.ndarray]:
        out, back = place.garbage(*vectors), target.out(place)
        place.operations.flatten(place.holding(values), out)
        place.operations.unflatten(place.holding(gradient), back, **target.options(place))
        return [out, back]

    check_agreement(name, seed, run)


def check_relu(name: str, draw: Draw) -> None:
    """Values and gradients equal the reference, also in place, also where they are not numbers."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    gradient = not_all_numbers(rng, whole_numbers(rng, *shape))
    strange = [np.nan, np.inf, -np.inf, 1e-45, -1e-45, -0.0]
    values = not_all_numbers(rng, whole_numbers(rng, *shape), strange)

    def run(place: Memory) -> Sequence[np.ndarray]:
        tested = place.operations
        out, back = place.garbage(*shape), place.garbage(*shape)
        tested.relu_forward(place.holding(values), out)
        tested.relu_backward(place.holding(gradient), out, back)
        overwritten, gradient_overwritten = place.to_write(values), place.to_write(gradient)
        tested.relu_forward(overwritten, overwritten)
        tested.relu_backward(gradient_overwritten, overwritten, gradient_overwritten)
        return [out, back, overwritten, gradient_overwritten]

    check_agreement(name, seed, run)


def check_rectifier(name: str, draw: Draw) -> None:
    """Values and gradients equal the reference for any slope and ceiling, added or in place."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    gradient, before = (not_all_numbers(rng, whole_numbers(rng, *shape)) for _ in range(2))
    values = not_all_numbers(rng, whole_numbers(rng, *shape, largest=8))
    slope = draw(st.sampled_from([0.0, 0.0, 0.125, 1.0]))
    ceiling = draw(st.sampled_from([np.inf, 6.0, 1.0]))

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.rectifier(slope=slope, ceiling=ceiling)
        out, back, sums = place.garbage(*shape), place.garbage(*shape), place.to_write(before)
        operation.forward(place.holding(values), out)
        operation.backward(place.holding(gradient), out, back)
        operation.backward(place.holding(gradient), out, sums, add=True)
        overwritten, gradient_overwritten = place.to_write(values), place.to_write(gradient)
        operation.forward(overwritten, overwritten)
        operation.backward(gradient_overwritten, overwritten, gradient_overwritten)
        return [out, back, sums, overwritten, gradient_overwritten]

    check_agreement(name, seed, run)


def check_activation(name: str, draw: Draw) -> None:
    """Values and gradients are near the reference, added to or written over the gradient."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    gradient, before = (whole_numbers(rng, *shape) for _ in range(2))
    strange = [np.nan, 0.0, -3.0, 3.0, 40.0, -40.0]
    spread = draw(st.sampled_from([0.01, 1.0, 8.0]))
    values = not_all_numbers(rng, rng.normal(0, spread, shape).astype(np.float32), strange)
    function = draw(st.sampled_from(list(FUNCTIONS)))

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.activation(function)
        out, back, sums = place.garbage(*shape), place.garbage(*shape), place.to_write(before)
        overwritten = place.to_write(gradient)
        operation.forward(place.holding(values), out)
        operation.backward(place.holding(gradient), place.holding(values), back)
        operation.backward(place.holding(gradient), place.holding(values), sums, add=True)
        operation.backward(overwritten, place.holding(values), overwritten)
        return [out, back, sums, overwritten]

    check_agreement(name, seed, run, [1e-6] * 4, least=1)


def check_affine(name: str, draw: Draw) -> None:
    """Values and gradients equal the reference, added to, masked, or in place."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    values, gradient = (not_all_numbers(rng, whole_numbers(rng, *shape)) for _ in range(2))
    factor = draw(st.sampled_from([0.5, -1.0, 2.0, 1.0]))
    offset, target = draw(st.sampled_from([0.0, -3.0, 0.25])), draw_target(draw, rng, *shape)

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.affine(factor, offset)
        out, back = place.garbage(*shape), target.out(place)
        operation.forward(place.holding(values), out)
        operation.backward(place.holding(gradient), back, **target.options(place))
        overwritten, gradient_overwritten = place.to_write(values), place.to_write(gradient)
        operation.forward(overwritten, overwritten)
        operation.backward(gradient_overwritten, gradient_overwritten)
        return [out, back, overwritten, gradient_overwritten]

    check_agreement(name, seed, run)


def check_parametric_rectifier(name: str, draw: Draw) -> None:
    """Values and gradients equal the reference, that of the slopes but for the order of its sum."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    values, gradient = (whole_numbers(rng, *shape) for _ in range(2))
    if draw(st.booleans()):
        not_all_numbers(rng, values)
        not_all_numbers(rng, gradient, [np.nan])
    slopes = whole_numbers(rng, draw(st.sampled_from([1, shape[-1]])))
    target = draw_target(draw, rng, *shape)

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.parametric_rectifier()
        given, out, back = place.holding(values), place.garbage(*shape), target.out(place)
        factors, sums = place.parameters(slopes), [place.parameters_out(len(slopes)) for _ in "12"]
        operation.forward(given, factors, out)
        arriving, overwritten = place.holding(gradient, 0), place.to_write(gradient, 0)
        options = target.options(place)
        operation.backward(given, arriving, factors, sums[0], back, **options)
        operation.backward(given, overwritten, factors, sums[1], overwritten)
        in_place = place.to_write(values)
        operation.forward(in_place, factors, in_place)
        return [out, back, overwritten, in_place, *sums]

    check_agreement(name, seed, run)


def check_padding(name: str, draw: Draw) -> None:
    """Padded maps and gradients equal the reference, added to or masked."""
    seed, rng = draw_rng(draw)
    shape = tuple(draw(st.integers(1, most)) for most in (40, 5, 5, 20))
    sides = tuple(draw(st.integers(0, 3)) for _ in range(4))
    padded = (shape[0], shape[1] + sum(sides[:2]), shape[2] + sum(sides[2:]), shape[3])
    values = not_all_numbers(rng, whole_numbers(rng, *shape))
    gradient = not_all_numbers(rng, whole_numbers(rng, *padded))
    value, target = draw(st.sampled_from([0.0, -np.inf, 3.0])), draw_target(draw, rng, *shape)

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.padding(sides, value)
        out, back = place.garbage(*padded), target.out(place)
        operation.forward(place.holding(values), out)
        operation.backward(place.holding(gradient), back, **target.options(place))
        return [out, back]

    check_agreement(name, seed, run)


def check_channel_product(name: str, draw: Draw) -> None:
    """Products and gradients equal the reference, added to, masked, or in place of the maps."""
    shape, (seed, rng) = tuple(draw(st.integers(1, 20)) for _ in range(4)), draw_rng(draw)
    maps, gradient = (not_all_numbers(rng, whole_numbers(rng, *shape)) for _ in range(2))
    factors = not_all_numbers(rng, whole_numbers(rng, shape[0], shape[3]))
    targets = draw_target(draw, rng, *shape), draw_target(draw, rng, shape[0], shape[3])

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation, out = place.operations.channel_product(), place.garbage(*shape)
        operation.forward(place.holding(maps), place.holding(factors), out)
        backs = [target.out(place) for target in targets]
        given = (place.holding(factors), place.holding(maps))
        calls = operation.backward_maps, operation.backward_factors
        for call, other, back, target in zip(calls, given, backs, targets, strict=True):
            call(place.holding(gradient), other, back, **target.options(place))
        overwritten, gradient_overwritten = place.to_write(maps), place.to_write(gradient)
        operation.forward(overwritten, place.holding(factors), overwritten)
        operation.backward_maps(gradient_overwritten, given[0], gradient_overwritten)
        return [out, *backs, overwritten, gradient_overwritten]

    check_agreement(name, seed, run)


def check_channel_selection(name: str, draw: Draw) -> None:
    """Slices, shuffles and other selections equal the reference, and so do their gradients."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    chosen = draw(
        st.one_of(
            st.just(range(shape[-1])),
            st.permutations(range(shape[-1])).map(lambda order: order[: 1 + seed % shape[-1]]),
            st.integers(0, shape[-1] - 1).map(lambda first: range(first, shape[-1])),
        )
    )
    values = not_all_numbers(rng, whole_numbers(rng, *shape))
    selected = *shape[:-1], len(chosen)
    gradient = not_all_numbers(rng, whole_numbers(rng, *selected))
    target = draw_target(draw, rng, *shape)

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.channel_selection(chosen)
        out, back = place.garbage(*selected), target.out(place)
        operation.forward(place.holding(values), out)
        operation.backward(place.holding(gradient), back, **target.options(place))
        return [out, back]

    check_agreement(name, seed, run)


def check_channel_scale(name: str, draw: Draw) -> None:
    """Products and gradients equal the reference, added to, masked, or in place of the values."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    values, gradient = (whole_numbers(rng, *shape) for _ in range(2))
    scale, target = whole_numbers(rng, shape[-1]), draw_target(draw, rng, *shape)
    if draw(st.booleans()):
        not_all_numbers(rng, values, [np.nan])
        not_all_numbers(rng, scale, [np.inf])

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation, out = place.operations.channel_scale(), place.garbage(*shape)
        factors, sums = place.parameters(scale), place.parameters_out(shape[-1])
        arriving, back = place.holding(gradient, padding=0), target.out(place)
        operation.forward(place.holding(values), factors, out)
        operation.backward_scale(place.holding(values), arriving, sums)
        operation.backward(arriving, factors, back, **target.options(place))
        overwritten = place.to_write(values)
        operation.forward(overwritten, factors, overwritten)
        return [out, sums, back, overwritten]

    check_agreement(name, seed, run)


def check_addition(name: str, draw: Draw) -> None:
    """Sums equal the reference, with a ReLU or without, also in place of either summand."""
    shape, (seed, rng), relu = draw_values(draw), draw_rng(draw), draw(st.booleans())
    left, right = (not_all_numbers(rng, whole_numbers(rng, *shape)) for _ in range(2))

    def run(place: Memory) -> Sequence[np.ndarray]:
        add, out = place.operations.add, place.garbage(*shape)
        add(place.holding(left), place.holding(right), out, relu=relu)
        over_left, over_right = place.to_write(left), place.to_write(right)
        add(over_left, place.holding(right), over_left, relu=relu)
        add(place.holding(left), over_right, over_right, relu=relu)
        return [out, over_left, over_right]

    check_agreement(name, seed, run)


def check_dropout(name: str, draw: Draw) -> None:
    """The same values are dropped as by the reference, and the others have the same bits."""
    shape, (seed, rng) = draw_values(draw), draw_rng(draw)
    values, gradient = (
        not_all_numbers(rng, rng.standard_normal(shape).astype(np.float32)) for _ in range(2)
    )
    rate = draw(st.sampled_from([0.0, 0.1, 0.4, 0.5, 0.999, 1 - 2**-40]))
    key = draw(st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**64 - 1]) | st.integers(0, 2**64 - 1))
    first = draw(st.sampled_from([0, 0, 1, 2**31, 2**36]) | st.integers(0, 1000))
    target, per_image = draw_target(draw, rng, *shape), draw(st.booleans())

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.dropout(rate, per_image)
        out, back = place.garbage(*shape), target.out(place)
        operation.forward(place.holding(values), out, key, first)
        operation.backward(
            place.holding(gradient), back, key, first_image=first, **target.options(place)
        )
        overwritten = place.to_write(values)
        operation.forward(overwritten, overwritten, key, first)
        return [out, back, overwritten]

    check_agreement(name, seed, run)
