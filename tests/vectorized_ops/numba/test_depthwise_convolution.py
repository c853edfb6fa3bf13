from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import numba
import numpy as np
import pytest
from contracts.convolution import (
    check_in_bfloat16,
    draw_convolution,
    normal_operands,
    whole_operands,
)
from contracts.memory import REFERENCE, Memory
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.implementations import operations
from vectorized_ops.layout import zeros_images_last
from vectorized_ops.numba import channel_sums
from vectorized_ops.numba.channel_sums import depthwise_takes
from vectorized_ops.numba.depthwise_convolution import DepthwiseConvolution
from vectorized_ops.numba.tuned_convolution import TunedConvolution
from vectorized_ops.shapes import ConvolutionShape

SHAPES = {
    "one pixel": ConvolutionShape(16, 1, 1, 3, 3, (3, 3), padding=(1, 1), groups=3),
    "groups of four and three": ConvolutionShape(
        32, 7, 7, 40, 40, (3, 3), (1, 1), (1, 1), groups=40
    ),
    "stride": ConvolutionShape(20, 9, 6, 17, 17, (3, 3), (2, 2), (1, 1), groups=17),
    "stride beyond the kernel": ConvolutionShape(48, 7, 8, 5, 5, (2, 1), (3, 2), (1, 0), groups=5),
    "dilation": ConvolutionShape(16, 9, 11, 6, 6, (3, 3), (2, 1), (2, 3), (1, 3), groups=6),
    "large window": ConvolutionShape(32, 6, 5, 5, 5, (7, 7), (1, 1), (3, 3), groups=5),
}


def place() -> Memory:
    return Memory(operations("numba"))


@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_all_directions_equal_the_reference(
    shape: ConvolutionShape, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    found = operands.results(DepthwiseConvolution(shape), place())
    for number, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        assert_array_equal(got, wanted, err_msg=f"result {number}")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_results_of_bfloat16_are_rounded_once(shape: ConvolutionShape) -> None:
    check_in_bfloat16(shape, DepthwiseConvolution)


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, storing: Callable[[bool], AbstractContextManager[None]]
) -> None:
    shape = draw_convolution(data.draw, [1])
    groups = max(shape.groups, 2)
    shape = replace(shape, channels=groups, filters=groups, groups=groups)
    assume(depthwise_takes(shape))
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    with storing(data.draw(st.booleans())):
        found = operands.results(DepthwiseConvolution(shape), place())
    for got, wanted in zip(found, expected, strict=True):
        assert_array_equal(got, wanted)


@pytest.mark.parametrize("ring_bytes", [1, channel_sums.RING_BYTES])
@pytest.mark.parametrize("name", ["groups of four and three", "stride", "large window"])
def test_moments_are_those_of_the_results(
    name: str, ring_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = SHAPES[name]
    monkeypatch.setattr(channel_sums, "RING_BYTES", ring_bytes)
    operands, operation = normal_operands(shape), DepthwiseConvolution(shape)
    images, memory = operands.images + 3, place()
    out = memory.garbage(*operands.gradient.shape)
    moments = operation.moments(shape.images)
    operation.forward(memory.holding(images), operands.weights, operands.bias, out, True, moments)
    mean, variance = np.empty(shape.filters, np.float32), np.empty(shape.filters, np.float32)
    moments.write(mean, variance)
    exact = replace(operands, images=images, relu=False).exact(shape)[0]
    assert_allclose(mean, exact.mean((0, 1, 2)), rtol=1e-5, atol=1e-5)
    assert_allclose(variance, exact.var((0, 1, 2)), rtol=1e-5)


def test_gradient_of_weights_keeps_its_precision_when_summed_over_many_pixels() -> None:
    shape = ConvolutionShape(16, 96, 96, 2, 2, (1, 1), groups=2)
    operands = normal_operands(shape)
    values, gradient = operands.images + 1, operands.gradient + 1
    operands = replace(operands, images=values, gradient=gradient, summed=gradient)
    found = operands.results(DepthwiseConvolution(shape), place())
    for got, exact in list(zip(found, operands.exact(shape), strict=True))[2:]:
        assert np.abs(got - exact).max() < 4e-6 * np.abs(exact).max()


def test_what_is_not_a_number_is_seen_where_its_window_is_and_nowhere_else() -> None:
    shape = SHAPES["groups of four and three"]
    operands = normal_operands(shape)
    sound = operands.results(DepthwiseConvolution(shape), place())
    operands.images[3, 3, 4, 2] = np.nan
    out, images_out, weights_out, _ = operands.results(DepthwiseConvolution(shape), place())
    window = np.zeros(out.shape, bool)
    window[3, 2:5, 3:6, 2] = True
    assert np.isnan(out[window]).all()
    assert_array_equal(out[~window], sound[0][~window])
    assert_array_equal(images_out, sound[1])
    assert np.isnan(weights_out[2]).all()
    assert_array_equal(np.delete(weights_out, 2, axis=0), np.delete(sound[2], 2, axis=0))


def test_neither_another_run_nor_threads_change_a_bit(same_bits: Callable[..., None]) -> None:
    shape = SHAPES["stride"]
    same_bits(
        lambda: normal_operands(shape).results(DepthwiseConvolution(shape), place()),
        summed_by_thread=[2, 3],
    )


def test_memory_of_a_slice_is_read_and_written_in_place() -> None:
    shape = SHAPES["groups of four and three"]
    operands, operation = whole_operands(shape), DepthwiseConvolution(shape)
    wide = zeros_images_last((32, 7, 7, 64))
    wide[...] = 7
    images, out = wide[..., :40], zeros_images_last((32, 7, 7, 50))[..., 5:45]
    images[...] = operands.images
    operation.forward(images, operands.weights, operands.bias, out)
    packed = place().garbage(*operands.gradient.shape)
    operation.forward(place().holding(operands.images), operands.weights, operands.bias, packed)
    assert_array_equal(out, packed)
    assert (wide[..., 40:] == 7).all()


@pytest.mark.parametrize(
    ("change", "takes"),
    [
        ({}, True),
        ({"filters": 34}, False),
        ({"groups": 1}, False),
        ({"dilation": (2, 1)}, True),
        ({"dilation": (1, 2)}, False),
    ],
)
def test_filters_of_one_channel_each_are_summed_directly_by_it(
    change: dict[str, int], takes: bool
) -> None:
    shape = replace(SHAPES["stride"], **change)
    assert depthwise_takes(shape) is takes
    made = TunedConvolution(shape, ("direct",))._by_direction["forward"]
    assert isinstance(made, DepthwiseConvolution) is takes
