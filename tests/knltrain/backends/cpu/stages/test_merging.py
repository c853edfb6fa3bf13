"""Sums and copies, and where their gradient goes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from knltrain.backends.cpu.memory import Tensor
from knltrain.backends.cpu.stages import AdditionStage, CopyStage, Run
from vectorized_ops.implementations import Operations

MakeTensor = Callable[..., Tensor]
RUN = Run({}, {}, 32, training=True)


def gradient(of: Tensor) -> np.ndarray:
    assert of.gradient is not None
    return of.gradient.array


@pytest.mark.parametrize("rectified", [False, True])
def test_sum_gives_its_gradient_to_both(
    ops: Operations, tensor: MakeTensor, rectified: bool
) -> None:
    left, right, output = tensor(3, 2, 8), tensor(3, 2, 8), tensor(3, 2, 8)
    output.rectified = rectified
    stage = AdditionStage("it", ops, left, right, output)
    assert stage.read == (left, right)
    total = left.values.array + right.values.array
    stage.forward(RUN)
    assert_array_equal(output.values.array, np.maximum(total, 0) if rectified else total)
    arriving = np.array(gradient(output))
    if rectified:
        arriving[total <= 0] = 0
    stage.flows[1].add = True
    before = np.array(gradient(right))
    stage.backward(RUN)
    assert_array_equal(gradient(left), arriving)
    assert_array_equal(gradient(right), before + arriving)


def test_addend_whose_gradient_lies_with_that_of_the_sum_needs_no_copy(
    ops: Operations, tensor: MakeTensor
) -> None:
    left, right, output = tensor(3, 2, 8, needed=False), tensor(3, 2, 8), tensor(3, 2, 8)
    assert right.gradient is not None and output.gradient is not None
    right.gradient.move_into(output.gradient)
    right.gradient.bind()
    stage = AdditionStage("it", ops, left, right, output)
    before = np.array(gradient(output))
    stage.backward(RUN)
    assert gradient(right) is gradient(output)
    assert_array_equal(gradient(right), before)


@pytest.mark.parametrize("add", [False, True])
def test_copy_gives_its_gradient_back(ops: Operations, tensor: MakeTensor, add: bool) -> None:
    inputs, output = tensor(3, 2, 8), tensor(3, 2, 8)
    stage = CopyStage("it", ops, inputs, output)
    stage.flows[0].add = add
    stage.forward(RUN)
    assert_array_equal(output.values.array, inputs.values.array)
    expected = gradient(output) + (gradient(inputs) if add else 0)
    stage.backward(RUN)
    assert_array_equal(gradient(inputs), expected)


def test_copy_of_what_needs_no_gradient_gives_none(ops: Operations, tensor: MakeTensor) -> None:
    output = tensor(3, 2, 8)
    before = np.array(gradient(output))
    CopyStage("it", ops, tensor(3, 2, 8, needed=False), output).backward(RUN)
    assert_array_equal(gradient(output), before)
