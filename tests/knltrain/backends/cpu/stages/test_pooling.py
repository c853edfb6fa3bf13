"""Poolings compute what their operations do, and remember where the maxima were."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knltrain.backends.cpu.memory import Place, Tensor
from knltrain.backends.cpu.stages import AveragePoolingStage, MaxPoolingStage, Run
from vectorized_ops.implementations import Operations
from vectorized_ops.reference import pooling
from vectorized_ops.shapes import PoolingShape

MakeTensor = Callable[..., Tensor]
RUN = Run({}, {}, 32, training=True)
SHAPE = PoolingShape(5, 6, (3, 3), (2, 2), (1, 1))


def plain(place: Place | None) -> np.ndarray:
    assert place is not None
    return np.ascontiguousarray(place.array)


@pytest.mark.parametrize(("add", "mask"), [(False, False), (True, True)])
def test_maxima_and_their_gradient(
    ops: Operations,
    tensor: MakeTensor,
    bound: Callable[[Place], Place],
    add: bool,
    mask: bool,
) -> None:
    inputs, output = tensor(5, 6, 8), tensor(3, 3, 8)
    stage = MaxPoolingStage("it", ops, ops.max_pooling(SHAPE), inputs, output)
    (places,) = stage.remembered
    assert bound(places).array.dtype == np.uint8
    stage.flows[0].add, stage.flows[0].mask = add, mask
    stage.forward(RUN)
    exact = pooling.MaxPooling(SHAPE)
    values, target = plain(inputs.values), plain(inputs.gradient).copy()
    out, which = np.empty_like(plain(output.values)), np.empty((32, 3, 3, 8), np.uint8)
    exact.forward(values, out, which)
    assert_array_equal(output.values.array, out)
    stage.backward(RUN)
    exact.backward(plain(output.gradient), which, target, add, values if mask else None)
    assert_array_equal(plain(inputs.gradient), target)


@pytest.mark.parametrize("whole", [False, True])
def test_means_and_their_gradient(ops: Operations, tensor: MakeTensor, whole: bool) -> None:
    inputs = tensor(5, 6, 8)
    output = tensor(8) if whole else tensor(3, 3, 8)
    operation = ops.global_average_pooling() if whole else ops.average_pooling(SHAPE)
    stage = AveragePoolingStage("it", ops, operation, inputs, output)
    exact = pooling.GlobalAveragePooling() if whole else pooling.AveragePooling(SHAPE)
    out, target = np.empty_like(plain(output.values)), np.empty_like(plain(inputs.gradient))
    exact.forward(plain(inputs.values), out)
    exact.backward(plain(output.gradient), target)
    stage.forward(RUN)
    stage.backward(RUN)
    assert_allclose(output.values.array, out, rtol=1e-6, atol=1e-6)
    assert_allclose(plain(inputs.gradient), target, rtol=1e-6, atol=1e-6)


def test_inputs_without_a_gradient_get_none(ops: Operations, tensor: MakeTensor) -> None:
    inputs, output = tensor(5, 6, 8, needed=False), tensor(3, 3, 8)
    maximum = MaxPoolingStage("it", ops, ops.max_pooling(SHAPE), inputs, output)
    mean = AveragePoolingStage("it", ops, ops.average_pooling(SHAPE), inputs, output)
    before = plain(output.gradient).copy()
    for stage in (maximum, mean):
        assert not stage.flows[0].is_needed
        stage.backward(RUN)
    assert_array_equal(plain(output.gradient), before)
