from __future__ import annotations

import numpy as np
import pytest
from contracts.convolution import whole_operands
from contracts.memory import REFERENCE, Memory
from numpy.testing import assert_array_equal

from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba import channel_sums
from vectorized_ops.numba.depthwise_convolution import DepthwiseConvolution
from vectorized_ops.shapes import ConvolutionShape


@pytest.mark.parametrize("block", [1, 3, 7])
def test_blocks_of_any_number_of_channels_are_taken(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = ConvolutionShape(16, 5, 9, 7, 7, (3, 5), (2, 1), (1, 2), groups=7)
    monkeypatch.setattr(channel_sums, "channel_block", lambda *_: block)
    operands = whole_operands(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    found = operands.results(DepthwiseConvolution(shape), Memory(operations("numba")))
    for got, wanted in zip(found, expected, strict=True):
        assert_array_equal(got, wanted)


def test_strips_of_any_number_of_columns_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ConvolutionShape(16, 6, 23, 3, 3, (3, 3), (1, 2), (1, 1), groups=3)
    monkeypatch.setattr(channel_sums, "RING_BYTES", 9000)
    operands, operation = whole_operands(shape), DepthwiseConvolution(shape)
    assert [len(way.strips) for way in operation._windows] == [3, 2]
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    found = operands.results(operation, Memory(operations("numba")))
    for got, wanted in zip(found, expected, strict=True):
        assert_array_equal(got, wanted)


@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_lines_under_a_window_have_room_in_the_cache(dilation: int) -> None:
    shape = ConvolutionShape(
        32, 65, 65, 96, 96, (3, 3), (1, 1), (dilation, dilation), (dilation, dilation), 96
    )
    operation = DepthwiseConvolution(shape)
    for way in operation._windows:
        floats = channel_sums.ring_size(way, operation._step) - operation._step
        assert 4 * floats <= channel_sums.RING_BYTES


def test_sums_are_made_anew_in_each_call() -> None:
    shape = ConvolutionShape(16, 5, 5, 3, 3, (3, 3), padding=(1, 1), groups=3)
    operands, operation = whole_operands(shape), DepthwiseConvolution(shape)
    memory = Memory(operations("numba"))
    found = [operands.results(operation, memory)[2] for _ in range(2)]
    assert_array_equal(*found)
    assert np.any(found[0])


def test_scratch_memory_may_hold_anything() -> None:
    shape = ConvolutionShape(16, 6, 5, 3, 3, (5, 3), (2, 1), (2, 1), groups=3)
    operands, operation = whole_operands(shape), DepthwiseConvolution(shape)
    expected = operands.results(REFERENCE.convolution(shape), Memory(REFERENCE))
    memory = aligned_zeros((operation.scratch_size + 16,))
    memory[:] = np.nan
    operation.use_scratch(memory[: operation.scratch_size])
    for got, wanted in zip(
        operands.results(operation, Memory(operations("numba"))), expected, strict=True
    ):
        assert_array_equal(got, wanted)
    assert np.isnan(memory[operation.scratch_size :]).all()
