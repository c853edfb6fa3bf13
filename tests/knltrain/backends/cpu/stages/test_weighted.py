"""Convolutions and dense layers compute what their operations do, with what is fused into them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knltrain.backends.cpu.memory import Place, Tensor
from knltrain.backends.cpu.stages import (
    FlattenStage,
    MaxPoolingStage,
    PooledConvolutionStage,
    Run,
    Stage,
    WeightedStage,
)
from vectorized_ops.implementations import Operations
from vectorized_ops.reference import convolution, dense
from vectorized_ops.shapes import ConvolutionShape, PoolingShape

MakeTensor = Callable[..., Tensor]
SHAPE = ConvolutionShape(32, 5, 6, 8, 16, (3, 3), padding=(1, 1))
ROUNDING = 1e-3
"""Of sums of whole numbers up to about a thousand, by algorithms with fractions in between."""


def plain(place: Place | None) -> np.ndarray:
    assert place is not None
    return np.ascontiguousarray(place.array)


def run_with(*shape: int, bias: bool = True) -> Run:
    """Whole numbers as parameters, and gradients to be overwritten."""
    rng = np.random.default_rng(1)
    shapes = {"it.weights": shape, **({"it.bias": shape[:1]} if bias else {})}
    parameters = {
        name: rng.integers(-3, 4, size).astype(np.float32) for name, size in shapes.items()
    }
    return Run(parameters, {n: np.full_like(v, 99) for n, v in parameters.items()}, 32, True)


@pytest.mark.parametrize(("bias", "relu"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("needed", [True, False])
def test_convolution_with_bias_and_relu(
    ops: Operations, tensor: MakeTensor, bias: bool, relu: bool, needed: bool
) -> None:
    inputs, output = tensor(5, 6, 8, needed=needed), tensor(5, 6, 16)
    stage = WeightedStage("it", ops, ops.convolution(SHAPE), inputs, output, bias)
    check_weighted(stage, convolution.Convolution(SHAPE), run_with(*SHAPE.weights, bias=bias), relu)


@pytest.mark.parametrize(("bias", "relu"), [(True, False), (False, True)])
def test_dense_layer_with_bias_and_relu(
    ops: Operations, tensor: MakeTensor, bias: bool, relu: bool
) -> None:
    inputs, output = tensor(24), tensor(16)
    stage = WeightedStage("it", ops, ops.dense(32, 24, 16), inputs, output, bias)
    check_weighted(stage, dense.Dense(32, 24, 16), run_with(16, 24, bias=bias), relu)


def check_weighted(
    stage: WeightedStage, exact: convolution.Convolution | dense.Dense, run: Run, relu: bool
) -> None:
    assert stage.values_again == (stage.inputs,)
    stage.output.rectified = relu
    stage.flows[0].add = stage.flows[0].mask = True
    weights, bias = run.parameters["it.weights"], run.parameters.get("it.bias")
    values, out = plain(stage.inputs.values), np.empty_like(plain(stage.output.values))
    exact.forward(values, weights, bias, out, relu)
    stage.forward(run)
    assert_allclose(stage.output.values.array, out, atol=ROUNDING)
    arriving = plain(stage.output.gradient).copy()
    if relu:
        arriving[stage.output.values.array <= 0] = 0
    expected = {name: np.empty_like(value) for name, value in run.parameters.items()}
    exact.backward_weights(values, arriving, expected["it.weights"], expected.get("it.bias"))
    target = None if stage.inputs.gradient is None else plain(stage.inputs.gradient).copy()
    stage.backward(run)
    for name, value in expected.items():
        assert_allclose(run.gradients[name], value, atol=ROUNDING)
    if target is not None:
        exact.backward_data(arriving, weights, target, True, values)
        assert_allclose(plain(stage.inputs.gradient), target, atol=ROUNDING)


def test_operation_that_needs_scratch_memory_is_named(ops: Operations, tensor: MakeTensor) -> None:
    operation = ops.dense(32, 24, 16)
    stage = WeightedStage("it", ops, operation, tensor(24), tensor(16), True)
    assert stage.scratch_users == ((operation,) if ops.name in ("numba", "channels_last") else ())


@pytest.mark.parametrize("implementation", ["numba"], indirect=True)
def test_fused_pooling_equals_convolution_and_pooling_one_after_the_other(
    ops: Operations, tensor: MakeTensor, bound: Callable[[Place], Place]
) -> None:
    results = []
    for fused in (True, False):
        run, inputs, output = run_with(16, 8, 3, 3), tensor(9, 8, 8), tensor(3, 3, 16)
        assert output.gradient is not None
        rng = np.random.default_rng(3)
        for place in (inputs.values, output.gradient):  # no two alike: the largest is one
            place.array[...] = rng.uniform(-3, 3, place.array.shape)
        stages: list[Stage]
        if fused:
            operation = ops.pooled_convolution((32, 9, 8, 8), 16, 3)  # type: ignore[misc]
            stages = [PooledConvolutionStage("it", ops, operation, inputs, output)]
        else:
            between = tensor(7, 6, 16)
            whole = ops.convolution(ConvolutionShape(32, 9, 8, 8, 16, (3, 3)))
            pooling = ops.max_pooling(PoolingShape(7, 6, (2, 2), (2, 2)))
            stages = [
                WeightedStage("it", ops, whole, inputs, between, True),
                MaxPoolingStage("pool", ops, pooling, between, output),
            ]
        for stage in stages:
            for place in stage.remembered:
                bound(place)
            stage.forward(run)
        for stage in reversed(stages):
            stage.backward(run)
        results.append(
            [plain(output.values), plain(inputs.gradient), *map(np.array, run.gradients.values())]
        )
    for one, other in zip(*results, strict=True):
        assert_allclose(one, other, rtol=1e-4, atol=ROUNDING)


@pytest.mark.parametrize("add", [False, True])
def test_flatten_goes_channel_by_channel_and_back(
    ops: Operations, tensor: MakeTensor, add: bool
) -> None:
    inputs, output = tensor(2, 3, 8), tensor(48)
    stage = FlattenStage("it", ops, inputs, output)
    stage.flows[0].add = add
    before = plain(inputs.gradient).copy() if add else 0
    run = Run({}, {}, 32, training=True)
    stage.forward(run)
    stage.backward(run)
    expected = inputs.values.array.transpose(0, 3, 1, 2).reshape(32, 48)
    assert_array_equal(output.values.array, expected)
    back = plain(output.gradient).reshape(32, 8, 2, 3).transpose(0, 2, 3, 1)
    assert_array_equal(plain(inputs.gradient), before + back)


def test_flatten_of_what_needs_no_gradient_gives_none(ops: Operations, tensor: MakeTensor) -> None:
    inputs, output = tensor(2, 3, 8, needed=False), tensor(48)
    FlattenStage("it", ops, inputs, output).backward(Run({}, {}, 32, training=True))
    assert inputs.gradient is None
