"""Gradients of the weights of groups of few channels, summed by image."""

from __future__ import annotations

from dataclasses import replace

import numba
import pytest
from contracts.convolution import draw_convolution, whole_operands
from contracts.memory import REFERENCE, Memory
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.implementations import operations
from vectorized_ops.numba import channel_sums
from vectorized_ops.numba.channel_sums import ChannelSums, channel_block, channel_sums_take
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.shapes import ConvolutionShape

SHAPES = {
    "four each": ConvolutionShape(32, 9, 7, 24, 24, (3, 3), (1, 1), (1, 1), groups=6),
    "three each, stride": ConvolutionShape(20, 8, 9, 15, 15, (3, 5), (2, 2), (1, 2), groups=5),
    "two each, dilation": ConvolutionShape(16, 9, 11, 6, 6, (3, 3), (1, 1), (2, 3), (2, 3), 3),
    "one of each": ConvolutionShape(32, 7, 7, 40, 40, (3, 3), (1, 1), (1, 1), groups=40),
}


@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradients_equal_those_of_the_reference(
    shape: ConvolutionShape, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    operation = Convolution(shape)
    assert isinstance(operation._sums, ChannelSums)
    found = operands.results(operation, Memory(operations("numba")))
    for got, wanted in zip(found, expected, strict=True):
        assert_array_equal(got, wanted)


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_gradients_of_any_shape_equal_those_of_the_reference(data: st.DataObject) -> None:
    shape, each = draw_convolution(data.draw, [1]), data.draw(st.integers(1, LANES // 2))
    groups = max(shape.groups, 2)
    shape = replace(shape, channels=groups * each, filters=groups * each, groups=groups)
    assume(channel_sums_take(shape))
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    found = operands.results(Convolution(shape), Memory(operations("numba")))
    for got, wanted in zip(found, expected, strict=True):
        assert_array_equal(got, wanted)


def test_what_is_given_for_the_bias_changes_no_weight() -> None:
    operands = whole_operands(SHAPES["four each"])
    operation = Convolution(SHAPES["four each"])
    with_bias = operands.results(operation, Memory(operations("numba")))
    without = replace(operands, bias=None).results(operation, Memory(operations("numba")))
    assert_array_equal(without[2], with_bias[2])


@pytest.mark.parametrize("ring_bytes", [1, channel_sums.RING_BYTES])
def test_blocks_are_of_whole_groups(ring_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_sums, "RING_BYTES", ring_bytes)
    for shape in SHAPES.values():
        block = channel_block(shape, 32)
        assert block % (shape.channels // shape.groups) == 0
        assert 0 < block <= shape.channels


def test_groups_of_many_channels_or_of_other_filters_are_not_taken() -> None:
    shape = SHAPES["four each"]
    assert channel_sums_take(shape)
    assert not channel_sums_take(replace(shape, filters=48))
    assert not channel_sums_take(replace(shape, channels=LANES * 6, filters=LANES * 6))
    assert not channel_sums_take(replace(shape, groups=1, channels=4, filters=4))
