"""Channels that are chosen or scaled, and where their gradient goes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knltrain.backends.cpu.memory import Tensor
from knltrain.backends.cpu.stages import ChannelScaleStage, ChannelSelectionStage, Run
from vectorized_ops.implementations import Operations

MakeTensor = Callable[..., Tensor]


def gradient(of: Tensor) -> np.ndarray:
    assert of.gradient is not None
    return of.gradient.array


def run_with(scale: np.ndarray, sums: np.ndarray) -> Run:
    return Run({"it.scale": scale}, {"it.scale": sums}, 32, training=True)


@pytest.mark.parametrize("add", [False, True])
def test_gradient_of_a_slice_leaves_the_other_channels(
    ops: Operations, tensor: MakeTensor, add: bool
) -> None:
    inputs, output = tensor(3, 2, 8), tensor(3, 2, 3)
    stage = ChannelSelectionStage("it", ops, ops.channel_selection((2, 3, 4)), inputs, output)
    run = Run({}, {}, 32, training=True)
    stage.forward(run)
    assert_array_equal(output.values.array, inputs.values.array[..., 2:5])
    expected = np.array(gradient(inputs)) if add else np.zeros_like(gradient(inputs))
    expected[..., 2:5] += gradient(output)
    stage.flows[0].add = add
    stage.backward(run)
    assert_array_equal(gradient(inputs), expected)
    assert stage.values_again == ()


@pytest.mark.parametrize("needed", [False, True])
def test_factors_learn_also_where_the_values_need_no_gradient(
    ops: Operations, tensor: MakeTensor, needed: bool
) -> None:
    inputs, output = tensor(3, 2, 8, needed=needed), tensor(3, 2, 8)
    stage = ChannelScaleStage("it", ops, ops.channel_scale(), inputs, output)
    scale, sums = np.arange(8, dtype=np.float32), np.full(8, np.nan, np.float32)
    run = run_with(scale, sums)
    stage.forward(run)
    assert_array_equal(output.values.array, inputs.values.array * scale)
    arriving = np.array(gradient(output))
    stage.backward(run)
    exact = (arriving.astype(np.float64) * inputs.values.array).sum(axis=(0, 1, 2))
    assert_allclose(sums, exact, rtol=1e-4, atol=1e-4)
    assert stage.values_again == (inputs,)
    if needed:
        assert_array_equal(gradient(inputs), arriving * scale)
