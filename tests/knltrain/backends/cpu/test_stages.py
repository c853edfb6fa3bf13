from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from knltrain.backends.cpu.stages import (
    Activation,
    FlattenStage,
    MaxPoolingStage,
    PooledConvolutionStage,
    ReLUStage,
    WeightedStage,
)
from knltrain.network import layers
from vectorized_ops.implementations import IMPLEMENTATIONS, Operations, operations
from vectorized_ops.reference import convolution, dense, pooling

IMAGES = 16
"""A whole vector, so that every implementation has arrays of the same shape."""


@pytest.fixture(params=IMPLEMENTATIONS)
def ops(request: pytest.FixtureRequest) -> Operations:
    return operations(request.param)


def whole_numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    return rng.integers(-3, 4, shape).astype(np.float32)


def activation(ops: Operations, *shape: int, with_gradient: bool = True) -> Activation:
    """Whole numbers as values, and a gradient to be overwritten."""
    made = Activation.allocate(ops, IMAGES, shape)
    made.values[...] = whole_numbers(IMAGES, *shape)
    assert made.gradient is not None
    made.gradient.fill(99)
    return made if with_gradient else Activation(made.values, None)


def parameters(*shape: int) -> dict[str, np.ndarray]:
    return {"layer.weights": whole_numbers(*shape), "layer.bias": whole_numbers(shape[0])}


def gradients_like(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.full_like(value, 99) for name, value in values.items()}


def set_gradient(of: Activation) -> np.ndarray:
    assert of.gradient is not None
    of.gradient[...] = whole_numbers(*of.gradient.shape)[::-1]
    return np.ascontiguousarray(of.gradient)


@pytest.mark.parametrize("with_gradient", [True, False])
def test_convolution_computes_what_its_operation_does(ops: Operations, with_gradient: bool) -> None:
    inputs, output = activation(ops, 7, 8, 2, with_gradient=with_gradient), activation(ops, 4, 4, 5)
    operation = ops.convolution(inputs.values.shape, 5, 3, 2, 1)
    stage, given = WeightedStage("layer", operation, inputs, output), parameters(5, 2, 3, 3)
    stage.forward(given)
    gradient, found = set_gradient(output), gradients_like(given)
    stage.backward(given, found)

    exact = convolution.Convolution(inputs.values.shape, 5, 3, 2, 1)
    values, out = np.ascontiguousarray(inputs.values), np.empty_like(gradient)
    exact.forward(values, given["layer.weights"], given["layer.bias"], out)
    assert (stage.name, stage.output) == ("layer", output)
    assert_array_equal(output.values, out)
    expected = gradients_like(given)
    exact.backward_weights(values, gradient, *expected.values())
    for name, value in expected.items():
        assert_array_equal(found[name], value)
    if inputs.gradient is not None:
        exact.backward_data(gradient, given["layer.weights"], values)
        assert_array_equal(inputs.gradient, values)


@pytest.mark.parametrize("with_gradient", [True, False])
def test_max_pooling_spreads_the_gradient_where_it_is_needed(
    ops: Operations, with_gradient: bool
) -> None:
    inputs, output = activation(ops, 5, 6, 3, with_gradient=with_gradient), activation(ops, 2, 2, 3)
    stage = MaxPoolingStage(layers.MaxPooling("layer", 3, 2), ops, inputs, output)
    stage.forward({})
    gradient = set_gradient(output)
    stage.backward({}, {})
    exact, values = pooling.MaxPooling(3, 2), np.ascontiguousarray(inputs.values)
    out, which = np.empty_like(gradient), np.empty(gradient.shape, np.uint8)
    exact.forward(values, out, which)
    assert_array_equal(output.values, out)
    if inputs.gradient is not None:
        exact.backward(gradient, which, values)
        assert_array_equal(inputs.gradient, values)


@pytest.mark.parametrize("with_gradient", [True, False])
def test_dense_computes_what_its_operation_does(ops: Operations, with_gradient: bool) -> None:
    inputs, output = activation(ops, 19, with_gradient=with_gradient), activation(ops, 4)
    stage = WeightedStage("layer", ops.dense(*inputs.values.shape, 4), inputs, output)
    given = parameters(4, 19)
    stage.forward(given)
    gradient, found = set_gradient(output), gradients_like(given)
    stage.backward(given, found)
    exact, values = dense.Dense(IMAGES, 19, 4), np.ascontiguousarray(inputs.values)
    out = np.empty_like(gradient)
    exact.forward(values, *given.values(), out)
    assert_array_equal(output.values, out)
    expected = gradients_like(given)
    exact.backward_weights(values, gradient, *expected.values())
    for name, value in expected.items():
        assert_array_equal(found[name], value)
    if inputs.gradient is not None:
        exact.backward_data(gradient, given["layer.weights"], values)
        assert_array_equal(inputs.gradient, values)


def test_fused_stage_equals_convolution_and_pooling_one_after_the_other() -> None:
    ops, layer = operations("numba"), layers.Convolution("layer", 5, 3)
    given, results = parameters(5, 2, 3, 3), []
    for fused in (True, False):
        inputs, output = activation(ops, 9, 8, 2), activation(ops, 3, 3, 5)
        stages: list[Any]
        if fused:
            stages = [PooledConvolutionStage(layer, ops, inputs, output)]
        else:
            between = activation(ops, 7, 6, 5)
            whole = ops.convolution(inputs.values.shape, 5, 3, 1, 0)
            pool = layers.MaxPooling("pool", 2, 2)
            stages = [
                WeightedStage("layer", whole, inputs, between),
                MaxPoolingStage(pool, ops, between, output),
            ]
        for stage in stages:
            stage.forward(given)
        set_gradient(output)
        found = gradients_like(given)
        for stage in reversed(stages):
            stage.backward(given, found)
        results.append([output.values, inputs.gradient, *found.values()])
    for one, other in zip(*results, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("implementation", ["reference", "onednn"])
def test_fused_stage_asks_for_an_implementation_that_fuses(implementation: str) -> None:
    ops = operations(implementation)
    with pytest.raises(TypeError, match=f"the {implementation} implementation does not fuse"):
        PooledConvolutionStage(
            layers.Convolution("layer", 5, 3),
            ops,
            activation(ops, 9, 8, 2),
            activation(ops, 3, 3, 5),
        )


def test_flatten_goes_channel_by_channel_and_back(ops: Operations) -> None:
    inputs = activation(ops, 2, 3, 4)
    stage = FlattenStage("layer", ops, inputs)
    stage.forward({})
    expected = inputs.values.transpose(0, 3, 1, 2).reshape(IMAGES, 24)
    assert_array_equal(stage.output.values, expected)
    gradient = set_gradient(stage.output)
    stage.backward({}, {})
    assert inputs.gradient is not None
    assert_array_equal(inputs.gradient.transpose(0, 3, 1, 2).reshape(IMAGES, 24), gradient)
    FlattenStage("layer", ops, activation(ops, 2, 3, 4, with_gradient=False)).backward({}, {})


def test_relu_works_in_place(ops: Operations) -> None:
    inputs = activation(ops, 3, 3, 2)
    before = np.array(inputs.values)
    stage = ReLUStage(layers.ReLU("layer"), ops, inputs)
    assert stage.output is inputs
    stage.forward({})
    assert_array_equal(inputs.values, np.maximum(before, 0))
    gradient = set_gradient(inputs)
    stage.backward({}, {})
    assert_array_equal(inputs.gradient, np.where(before > 0, gradient, 0))
    ReLUStage(layers.ReLU("layer"), ops, Activation(inputs.values, None)).backward({}, {})


def test_activation_has_its_gradient_beside_its_values(ops: Operations) -> None:
    made = Activation.allocate(ops, 5, (2, 3, 4))
    assert made.gradient is not None
    assert made.values.shape == made.gradient.shape
    assert made.values.shape[1:] == (2, 3, 4)
    assert not np.shares_memory(made.values, made.gradient)
