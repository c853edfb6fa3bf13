"""The contracts of batch and local response normalisation."""

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

from vectorized_ops.bfloat16 import widened
from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue
from vectorized_ops.shapes import ACTIVATION_FUNCTIONS

RECTIFIERS = IDENTITY, RELU, Epilogue(slope=0.5), Epilogue(slope=0.0, ceiling=2.0)
"""Epilogues without rounding, of the numbers drawn here."""

EPSILON = 0.25
"""With the variances drawn here, standard deviations are powers of two: z is exact, often zero."""


def draw_batch(draw: Draw) -> tuple[int, tuple[int, int, int, int]]:
    """Images of the batch, and a shape (N, H, W, C) that has room for more than those."""
    images, (height, width) = draw(st.integers(1, 40)), (draw(st.integers(1, 6)) for _ in "yx")
    shape = images + draw(st.sampled_from([0, 0, 1, 20])), height, width, draw(st.integers(1, 20))
    return images, shape


def filled_up(values: np.ndarray, images: int) -> np.ndarray:
    """`values` with NaN behind the batch."""
    values[images:] = np.nan
    return values


def check_statistics(name: str, draw: Draw) -> None:
    """Mean and variance are good also where they are far apart, and never spoilt by padding."""
    (images, shape), (seed, rng) = draw_batch(draw), draw_rng(draw)
    place, channels = Memory(implementation(name), np.random.default_rng(seed)), shape[3]
    offsets, spreads = rng.choice([0, 1, 1000, -1000], channels), rng.choice([0, 1, 5], channels)
    drawn = (offsets + spreads * rng.standard_normal(shape)).astype(np.float32)
    values = widened(place.kept(drawn))
    spoilt = not_all_numbers(rng, np.zeros(channels), [np.nan, np.inf][: draw(st.integers(0, 2))])
    values[draw(st.integers(0, images - 1)), -1, -1] += spoilt.astype(np.float32)

    mean, variance = place.parameters_out(channels), place.parameters_out(channels)
    operation = place.operations.batch_normalisation(images, *shape[1:], 1e-5)
    arguments = place.holding(filled_up(values, images), padding=np.nan)
    operation.statistics(arguments, mean, variance)
    place.check_surroundings()

    good = np.isfinite(spoilt)
    assert not np.isfinite(mean[~good]).any()
    assert not np.isfinite(variance[~good]).any()
    batch = values[:images, ..., good].astype(np.float64)
    largest, exact = np.abs(batch).max(axis=(0, 1, 2)), batch.var(axis=(0, 1, 2))
    assert (np.abs(mean[good] - batch.mean(axis=(0, 1, 2))) <= 1e-6 * largest).all()
    assert (np.abs(variance[good] - exact) <= 1e-4 * exact + (1e-6 * largest) ** 2).all()
    assert (variance[good] >= 0).all()


def whole_parameters(rng: np.random.Generator, channels: int) -> list[np.ndarray]:
    """Mean, variance, scale and shift for which z is exact."""
    mean, scale, shift = (whole_numbers(rng, channels, largest=2) for _ in range(3))
    variance = rng.choice([0, 0.75, 3.75, 15.75], channels).astype(np.float32)
    return [mean, variance, scale, shift]


def check_normalisation(name: str, draw: Draw) -> None:
    """Outputs equal the reference, with addend and ReLU or without, also in place."""
    (images, shape), (seed, rng) = draw_batch(draw), draw_rng(draw)
    values, addend = (not_all_numbers(rng, whole_numbers(rng, *shape)) for _ in range(2))
    parameters = whole_parameters(rng, shape[3])
    joined, epilogue = draw(st.booleans()), draw(st.sampled_from(RECTIFIERS))
    target = draw(st.sampled_from(["out", "values", *["addend"] * joined]))

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.batch_normalisation(images, *shape[1:], EPSILON)
        arrays = {"out": place.garbage(*shape)}
        for which, content in (("values", values), ("addend", addend)):
            arrays[which] = (place.to_write if target == which else place.holding)(content)
        operation.forward(
            arrays["values"], *map(place.parameters, parameters), arrays[target],
            addend=arrays["addend"] if joined else None, epilogue=epilogue,
        )  # fmt: skip
        return [arrays[target]]

    check_agreement(name, seed, run)


def check_normalisation_of_any_values(name: str, draw: Draw) -> None:
    """Outputs and gradients of normally distributed values follow the reference in float64."""
    (images, shape), (seed, rng) = draw_batch(draw), draw_rng(draw)
    values, gradient = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    parameters = [rng.standard_normal(shape[3]).astype(np.float32) for _ in range(4)]
    parameters[1] = parameters[1] ** 2
    epilogue = Epilogue(draw(st.sampled_from(ACTIVATION_FUNCTIONS)))
    epilogue = draw(st.sampled_from([IDENTITY, epilogue]))
    mean, variance, scale, shift = (array.astype(np.float64) for array in parameters)
    z = (values - mean) / np.sqrt(variance + 0.01) * scale + shift
    gradient[np.abs(np.abs(z) - 3) < 1e-4] = 0  # slopes of hard functions jump there

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.batch_normalisation(images, *shape[1:], 0.01)
        inputs, given = place.holding(values), [place.parameters(array) for array in parameters]
        out, back = place.garbage(*shape), place.garbage(*shape)
        operation.forward(inputs, *given, out, epilogue=epilogue)
        sums = place.parameters_out(shape[3]), place.parameters_out(shape[3])
        operation.backward(inputs, place.holding(gradient), *given, epilogue, *sums, back)
        # Sums of terms of about 1 may come out as next to nothing, with the errors of the terms.
        count = images * shape[1] * shape[2]
        return [out, *(1 + total / count for total in sums), back]

    # The slope of a far value underflows in float32: nothing is asked below its normal numbers.
    check_agreement(name, seed, run, tolerances=[2e-5] * 4, least=1e-30)


def check_normalisation_backward(name: str, draw: Draw) -> None:
    """All gradients follow the reference: masked again, added, in place, zero behind the batch."""
    (images, shape), (seed, rng) = draw_batch(draw), draw_rng(draw)
    values, gradient, before = (whole_numbers(rng, *shape) for _ in range(3))
    parameters = whole_parameters(rng, shape[3])
    if draw(st.booleans()):
        not_all_numbers(rng, values, [np.nan])
        not_all_numbers(rng, gradient, [np.nan])
    filled_up(values, images), filled_up(gradient, images)
    before[images:] = 0
    epilogue = draw(st.sampled_from(RECTIFIERS))
    target = draw(st.sampled_from(["write", "add", "in place"]))

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.batch_normalisation(images, *shape[1:], EPSILON)
        inputs = place.holding(values, padding=np.nan)
        if target == "in place":
            arriving = out = place.to_write(gradient, padding=np.nan)
        else:
            arriving = place.holding(gradient, padding=np.nan)
            out = place.to_write(before, padding=0) if target == "add" else place.garbage(*shape)
        sums = place.parameters_out(shape[3]), place.parameters_out(shape[3])
        operation.backward(
            inputs, arriving, *map(place.parameters, parameters), epilogue, *sums, out,
            add=target == "add",
        )  # fmt: skip
        assert not out[images:].any()
        return [*sums, out]

    check_agreement(name, seed, run, tolerances=[0, 0, 1e-5])


def check_within_channel(name: str, draw: Draw) -> None:
    """Outputs and gradients follow the reference in float64, and so does what is no number."""
    shape = tuple(draw(st.integers(1, most)) for most in (40, 7, 7, 9))
    seed, rng = draw_rng(draw)
    values, gradient = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    values *= draw(st.sampled_from([1, 30]))
    if draw(st.booleans()):
        not_all_numbers(rng, values)
        not_all_numbers(rng, gradient, [np.nan])
    side = draw(st.sampled_from([1, 3, 5]))
    alpha, beta = draw(st.sampled_from([5e-5, 1.0])), draw(st.sampled_from([0.6, 0.75]))
    target = draw_target(draw, rng, *shape)

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.within_channel_normalisation(side, alpha, beta)
        inputs, out, back = place.holding(values), place.garbage(*shape), target.out(place)
        operation.forward(inputs, out)
        operation.backward(inputs, place.holding(gradient), back, **target.options(place))
        return [out, back]

    finite = np.abs(gradient).max(where=np.isfinite(gradient), initial=0)
    check_agreement(name, seed, run, tolerances=[1e-5] * 2, least=float(finite))


def check_local_response(name: str, draw: Draw) -> None:
    """Outputs and gradients follow the reference in float64, and so does what is no number."""
    shape = tuple(draw(st.integers(1, most)) for most in (40, 4, 4, 20))
    seed, rng = draw_rng(draw)
    values, gradient = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    values *= draw(st.sampled_from([1, 30]))
    if draw(st.booleans()):
        not_all_numbers(rng, values)
        not_all_numbers(rng, gradient, [np.nan])
    size = draw(st.sampled_from([1, 3, 5, 9]))
    alpha, beta = draw(st.sampled_from([1e-4, 1.0])), draw(st.sampled_from([0.5, 0.6, 0.75, 1.0]))
    bias = draw(st.sampled_from([1.0, 2.0]))
    target = draw_target(draw, rng, *shape)

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.local_response_normalisation(size, alpha, beta, bias)
        inputs, out, back = place.holding(values), place.garbage(*shape), target.out(place)
        operation.forward(inputs, out)
        operation.backward(inputs, place.holding(gradient), back, **target.options(place))
        return [out, back]

    padded = np.pad(np.square(values.astype(np.float64)), [(size // 2,) * 2, *[(0, 0)] * 3])
    sums = np.lib.stride_tricks.sliding_window_view(padded, size, axis=0).sum(-1)
    scaled = np.abs(gradient) * (bias + alpha / size * sums) ** -beta  # of which most cancels out
    least = float(scaled.max(where=np.isfinite(scaled), initial=0))
    check_agreement(name, seed, run, tolerances=[1e-5] * 2, least=least)


def check_layer_normalisation(name: str, draw: Draw) -> None:
    """Outputs and gradients follow the reference in float64: added, masked, far from zero."""
    most = draw(st.sampled_from([(40, 4, 4, 20), (40, 40)]))
    shape, (seed, rng) = tuple(draw(st.integers(1, each)) for each in most), draw_rng(draw)
    values, gradient = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    values += draw(st.sampled_from([0, 30]))
    if draw(st.booleans()):
        not_all_numbers(rng, values, [np.nan])
    scale, shift = (rng.standard_normal(shape[-1]).astype(np.float32) for _ in range(2))
    epsilon, target = draw(st.sampled_from([1e-2, 1.0])), draw_target(draw, rng, *shape)
    in_place = target.before is None and draw(st.booleans())

    def run(place: Memory) -> Sequence[np.ndarray]:
        operation = place.operations.layer_normalisation(epsilon)
        inputs, out = place.holding(values), place.garbage(*shape)
        factors = place.parameters(scale)
        operation.forward(inputs, factors, place.parameters(shift), out)
        sums = place.parameters_out(shape[-1]), place.parameters_out(shape[-1])
        arriving = place.to_write(gradient, padding=0)
        back = arriving if in_place else target.out(place)
        operation.backward(inputs, arriving, factors, *sums, back, **target.options(place))
        # Sums of terms of about 1 may come out as next to nothing, with the errors of the terms.
        count = values.size // shape[-1]
        return [out, *(1 + total / count for total in sums), back]

    # Where values are far from zero and near to each other, so are errors of their mean.
    deviations = np.sqrt(values.astype(np.float64).var(-1) + epsilon)
    known = np.isfinite(deviations)
    furthest = np.abs(values).max(-1)[known] / deviations[known]
    rounding = np.finfo(np.float32).eps * float(furthest.max(initial=0))
    tolerances = [2e-5 + rounding] * 3
    check_agreement(name, seed, run, tolerances=[*tolerances, 1e-4], least=1)
