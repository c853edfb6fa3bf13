"""What all stages have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from knltrain.backends.cpu.memory import Tensor
from knltrain.backends.cpu.stages import Run, Stage
from knltrain.backends.cpu.stages.stage import channel_zeros
from vectorized_ops.implementations import Operations

MakeTensor = Callable[..., Tensor]


class Nothing(Stage):
    def forward(self, run: Run) -> None: ...

    def backward(self, run: Run) -> None: ...


def test_stage_reads_its_inputs_and_shares_in_their_gradient_unless_it_says_otherwise(
    ops: Operations, tensor: MakeTensor
) -> None:
    inputs, output = tensor(2, 2, 8), tensor(2, 2, 8)
    stage = Nothing("it", ops, inputs, output)
    assert stage.read == (inputs,)
    assert [flow.tensor for flow in stage.flows] == [inputs]
    assert (stage.remembered, stage.values_again, stage.scratch_users) == ((), (), ())


@pytest.mark.parametrize(
    ("rectified", "masked", "cut"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_gradient_is_zero_where_a_relu_cut_off_unless_that_was_done_before(
    ops: Operations, tensor: MakeTensor, rectified: bool, masked: bool, cut: bool
) -> None:
    output = tensor(2, 3, 8)
    output.rectified = rectified
    if masked:
        output.mark_masked()
    assert output.gradient is not None
    before = np.array(output.gradient.array)
    stage = Nothing("it", ops, tensor(2, 3, 8), output)
    expected = np.where(output.values.array > 0, before, 0) if cut else before
    assert_array_equal(stage.gradient, expected)
    assert stage.gradient is output.gradient.array


def test_numbers_of_channels_are_zero_at_first() -> None:
    zeros = channel_zeros(5)
    assert (zeros.shape, zeros.dtype, zeros.any()) == ((5,), np.float32, False)
