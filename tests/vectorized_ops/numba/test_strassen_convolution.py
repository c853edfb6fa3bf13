"""1x1 convolution by 7 products of 8, against the definition."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from contracts.convolution import Operands, normal_operands, whole_operands
from contracts.memory import REFERENCE, Memory, check_agreement, draw_rng, draw_target
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros, zeros_images_last
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.emit.lanes import AVX512
from vectorized_ops.numba.strassen_convolution import (
    LEAST_SIZE,
    StrassenConvolution,
    strassen_takes,
)
from vectorized_ops.shapes import ConvolutionShape

BOUND, OF_DIRECT = 5e-6, 2.5
"""Rounding errors as shares of the largest result, for normal values of up to 2048 channels, and
how many times those of direct summation their root mean square is at most."""

COUNTS = [64, 70, 92, 128]
"""Channels and filters whose halves are and are not whole vectors and whole tiles."""

SIDES = [(1, 2), (1, 3), (2, 2), (3, 5), (7, 4)]


def place() -> Memory:
    return Memory(operations("numba"))


def plain(
    height: int = 3, width: int = 3, channels: int = 70, filters: int = 92, images: int = 32
) -> ConvolutionShape:
    return ConvolutionShape(images, height, width, channels, filters, (1, 1))


def convolution(shape: ConvolutionShape) -> Any:
    """Strassen's two directions, and a third that needs none of its own."""
    made = StrassenConvolution(shape)
    return SimpleNamespace(
        forward=made.forward,
        backward_data=made.backward_data,
        backward_weights=Convolution(shape).backward_weights,
        use_scratch=made.use_scratch,
        scratch_size=made.scratch_size,
    )


def results(shape: ConvolutionShape, operands: Operands) -> list[np.ndarray]:
    return operands.results(convolution(shape), place())[:2]


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_both_directions_equal_the_reference_for_any_shape(data: st.DataObject) -> None:
    draw = data.draw
    height, width = draw(st.sampled_from(SIDES))
    channels, filters = (draw(st.sampled_from(COUNTS)) for _ in ("channels", "filters"))
    images = draw(st.sampled_from([17, 32, 50]))
    shape, (seed, rng) = plain(height, width, channels, filters, images), draw_rng(draw)
    operands = replace(
        whole_operands(shape),
        relu=draw(st.booleans()),
        target=draw_target(draw, rng, *shape.inputs),
    )
    if draw(st.booleans()):
        operands = replace(operands, bias=None)

    def run(place: Memory) -> list[np.ndarray]:
        of_reference = place.operations is REFERENCE
        made = REFERENCE.convolution(shape) if of_reference else convolution(shape)
        return operands.results(made, place)

    check_agreement("numba", seed, run)


@pytest.mark.parametrize("channels", [64, 512, 2048])
def test_rounding_errors_are_bounded(channels: int) -> None:
    for shape, number in (
        (plain(channels=channels, filters=64), 0),
        (plain(channels=64, filters=channels), 1),
    ):
        operands = normal_operands(shape)
        exact = operands.exact(shape)[number]
        ours, direct = (
            operands.results(made, place())[number] - exact
            for made in (convolution(shape), Convolution(shape))
        )
        assert np.abs(ours).max() < BOUND * np.abs(exact).max()
        assert 0 < np.square(ours).mean() < OF_DIRECT**2 * np.square(direct).mean()


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize(("height", "width"), [(1, 2), (3, 5), (40, 6)])
@pytest.mark.parametrize("relu", [False, True])
def test_moments_are_those_of_the_real_images_for_any_number_of_threads(
    relu: bool, height: int, width: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    shape, images = plain(height, width), 29
    operands, operation = normal_operands(shape), StrassenConvolution(shape)
    values, out, free = (
        place().holding(operands.images),
        *(place().garbage(*shape.outputs) for _ in "12"),
    )
    moments = operation.moments(images)
    for scale in (3, 1):  # what they held before does not count
        operation.forward(
            values * scale, operands.weights, operands.bias, out, relu, moments=moments
        )
    mean, variance = np.full((2, shape.filters), np.nan, np.float32)
    moments.write(mean, variance)
    operation.forward(values, operands.weights, operands.bias, free)
    exact = free[:images].astype(np.float64)
    assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=3e-7, atol=3e-6)
    assert_allclose(variance, exact.var(axis=(0, 1, 2)), rtol=3e-6)
    assert_array_equal(out, np.maximum(free, 0) if relu else free)


def test_moments_of_another_operation_are_refused() -> None:
    operation, other = StrassenConvolution(plain()), StrassenConvolution(plain(filters=64))
    operands = normal_operands(plain())
    with pytest.raises(OperationError, match="have the operation itself make them"):
        operation.forward(
            place().holding(operands.images), operands.weights, None,
            place().garbage(*plain().outputs), moments=other.moments(32),
        )  # fmt: skip


def test_stores_past_the_caches_write_the_same(
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    shape = plain()
    written = []
    for past in (False, True):
        with storing(past):
            written.append(results(shape, normal_operands(shape)))
    for through, past_caches in zip(*written, strict=True):
        assert_array_equal(through, past_caches)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("pixel", "pair"), [(4, (4, 5)), (3, (2, 3)), (8, (8,))])
@pytest.mark.parametrize("channel", [2, 60])
def test_what_is_not_a_number_is_seen_wherever_it_should_and_in_two_pixels_alone(
    channel: int, pixel: int, pair: tuple[int, ...], broken: float
) -> None:
    shape = plain(3, 3)
    operands = normal_operands(shape)
    sound = results(shape, operands)
    place = 3, pixel // 3, pixel % 3
    operands.images[(*place, channel)] = operands.gradient[(*place, channel)] = broken
    spoilt = np.zeros(shape.inputs[:3], bool)
    spoilt[3].reshape(-1)[list(pair)] = True
    for found, expected in zip(results(shape, operands), sound, strict=True):
        assert not np.isfinite(found[place]).any()
        assert_array_equal(found[~spoilt], expected[~spoilt])


def test_a_weight_that_is_not_a_number_spoils_every_pixel_of_its_filter_and_of_one_other() -> None:
    shape = plain()
    operands = normal_operands(shape)
    sound = results(shape, operands)
    operands.weights[60, 2] = np.nan
    of_filters, of_channels = results(shape, operands)
    assert np.isnan(of_filters[..., 60]).all()
    assert np.isnan(of_channels[..., 2]).all()
    others = {60, 60 - shape.filters // 2}, {2, 2 + shape.channels // 2}
    for found, expected, spoilt in zip((of_filters, of_channels), sound, others, strict=True):
        sane = [number for number in range(found.shape[3]) if number not in spoilt]
        assert_array_equal(found[..., sane], expected[..., sane])


def test_neither_another_run_nor_threads_change_a_bit(same_bits: Callable[..., None]) -> None:
    shape = plain(5, 5)
    same_bits(lambda: results(shape, normal_operands(shape)))


def test_operations_share_scratch_memory_that_holds_anything() -> None:
    shapes = plain(), plain(2, 2, 128, 64)
    made = [convolution(shape) for shape in shapes]
    size = max(operation.scratch_size for operation in made)
    memory = aligned_zeros((size + 16,))
    for shape, operation in zip(shapes, made, strict=True):
        operation.use_scratch(memory[:size])
        operands = normal_operands(shape)
        memory[...] = np.nan
        found = operands.results(operation, place())[:2]
        for value, expected in zip(found, results(shape, operands), strict=True):
            assert_array_equal(value, expected)
        assert np.isfinite(memory).any()
        assert np.isnan(memory[size:]).all()


@pytest.mark.parametrize(
    ("change", "takes"),
    [
        ({}, True),
        ({"height": 1, "width": 2}, True),
        ({"height": 1, "width": 1}, False),
        ({"channels": LEAST_SIZE - 2}, False),
        ({"filters": LEAST_SIZE - 2}, False),
        ({"channels": 71}, False),
        ({"filters": 93}, False),
        ({"images": 17}, True),
        ({"images": 33}, not AVX512),
        ({"kernel": (1, 3)}, False),
        ({"stride": (1, 2)}, False),
        ({"padding": (1, 0)}, False),
        ({"channels": 128, "filters": 128, "groups": 2}, False),
    ],
)
def test_plain_convolutions_of_many_channels_are_taken_and_others_refused(
    change: dict[str, Any], takes: bool
) -> None:
    shape = replace(plain(), **change)
    assert strassen_takes(shape) is takes
    if not takes:
        with pytest.raises(OperationError, match=r"Strassen's .* use Convolution"):
            StrassenConvolution(shape)


def test_arrays_of_other_shapes_are_refused() -> None:
    operands, other = normal_operands(plain()), normal_operands(plain(4, 4))
    operation = StrassenConvolution(plain())
    with pytest.raises(OperationError, match=r"images of shape .* expected shape \(32, 3, 3, 70\)"):
        replace(operands, images=other.images).results(operation, place())
    with pytest.raises(OperationError, match=r"mask of shape .* expected shape \(32, 3, 3, 70\)"):
        operation.backward_data(
            place().holding(operands.gradient), operands.weights,
            place().garbage(*operands.images.shape), mask=place().holding(other.images),
        )  # fmt: skip


def test_activations_in_bfloat16_are_refused() -> None:
    shape = ConvolutionShape(32, 2, 2, 64, 64, (1, 1))
    images, out = (
        zeros_images_last(extents, np.uint16) for extents in (shape.inputs, shape.outputs)
    )
    with pytest.raises(OperationError, match=r"type uint16 .* expected .* float32$"):
        StrassenConvolution(shape).forward(images, np.zeros(shape.weights, np.float32), None, out)
