"""Batch normalisation with what is fused into it, its running statistics, and LRN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from knltrain.backends.cpu.memory import Tensor
from knltrain.backends.cpu.stages import (
    BatchNormalisationStage,
    LayerNormalisationStage,
    LocalResponseNormalisationStage,
    Run,
    Statistics,
    WeightedStage,
)
from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue
from vectorized_ops.implementations import Operations
from vectorized_ops.reference import layer_normalisation, lrn, normalisation
from vectorized_ops.shapes import ConvolutionShape

MakeTensor = Callable[..., Tensor]
EPSILON = 1e-2
NAMES = ("scale", "shift", "running_mean", "running_variance")


def gradient(of: Tensor) -> np.ndarray:
    assert of.gradient is not None
    return of.gradient.array


def run_of(images: int = 32, training: bool = True) -> Run:
    rng = np.random.default_rng(2)
    parameters = {f"it.{name}": rng.uniform(0.5, 2, 8).astype(np.float32) for name in NAMES}
    return Run(
        parameters, {n: np.full_like(v, 99) for n, v in parameters.items()}, images, training
    )


def normalised(run: Run, values: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    unit = (values.astype(np.float64) - mean) / np.sqrt(variance + EPSILON)
    return unit * run.parameters["it.scale"] + run.parameters["it.shift"]


@pytest.fixture
def stage(ops: Operations, tensor: MakeTensor) -> Callable[..., BatchNormalisationStage]:
    """stage(epilogue=IDENTITY, addend=None): a normalisation of maps (3,4,8)."""

    def make(
        epilogue: Epilogue = IDENTITY, addend: Tensor | None = None
    ) -> BatchNormalisationStage:
        inputs, output = tensor(3, 4, 8), tensor(3, 4, 8)
        output.rectified = epilogue == RELU and addend is not None
        return BatchNormalisationStage("it", ops, inputs, output, EPSILON, epilogue, addend)

    return make


@pytest.mark.parametrize("images", [32, 17])
def test_training_goes_by_the_statistics_of_the_real_images(
    stage: Callable[..., BatchNormalisationStage], images: int
) -> None:
    made, run = stage(), run_of(images)
    values = np.array(made.inputs.values.array)
    made.inputs.values.array[images:] = 1e6
    made.forward(run)
    batch = values[:images].astype(np.float64)
    mean, variance = batch.mean((0, 1, 2)), batch.var((0, 1, 2))
    expected = normalised(run, values[:images], mean, variance)
    assert_allclose(made.output.values.array[:images], expected, rtol=1e-4, atol=1e-5)
    gradient(made.output)[images:] = 0
    made.backward(run)
    count = images * 12
    for name, found in (("mean", mean), ("variance", variance * count / (count - 1))):
        running = run.parameters[f"it.running_{name}"]
        assert_allclose(run.gradients[f"it.running_{name}"], running - found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("images", [32, 17])
def test_statistics_that_the_convolution_before_gathers_are_those_of_its_results(
    images: int, tensor: MakeTensor, ops: Operations
) -> None:
    shape = ConvolutionShape(32, 3, 4, 8, 8, (1, 1))
    before, between, output = (tensor(3, 4, 8) for _ in range(3))
    source = WeightedStage("conv", ops, ops.convolution(shape), before, between, False)
    made = BatchNormalisationStage("it", ops, between, output, EPSILON, IDENTITY)
    made.take_statistics([Statistics(between, source)])
    assert source.gives_moments == (ops.name == "numba")
    for training in (True, False):
        run = run_of(images, training)
        weights = np.random.default_rng(4).standard_normal(shape.weights).astype(np.float32)
        run = replace(run, parameters={**run.parameters, "conv.weights": weights})
        source.forward(run)
        made.forward(run)
        batch = between.values.array[:images].astype(np.float64)
        mean, variance = batch.mean((0, 1, 2)), batch.var((0, 1, 2))
        if not training:
            mean, variance = (run.parameters[f"it.running_{n}"] for n in ("mean", "variance"))
        expected = normalised(run, batch, mean, variance)
        assert_allclose(output.values.array[:images], expected, rtol=1e-4, atol=1e-5)


def test_evaluation_goes_by_the_running_statistics(
    stage: Callable[..., BatchNormalisationStage],
) -> None:
    made, run = stage(RELU), run_of(training=False)
    made.forward(run)
    statistics = run.parameters["it.running_mean"], run.parameters["it.running_variance"]
    expected = np.maximum(normalised(run, made.inputs.values.array, *statistics), 0)
    assert_allclose(made.output.values.array, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("epilogue", [IDENTITY, RELU], ids=["identity", "relu"])
@pytest.mark.parametrize("with_addend", [False, True])
def test_gradients_of_values_parameters_and_addend(
    stage: Callable[..., BatchNormalisationStage],
    tensor: MakeTensor,
    epilogue: Epilogue,
    with_addend: bool,
) -> None:
    addend = tensor(3, 4, 8) if with_addend else None
    made, run = stage(epilogue, addend), run_of()
    values, arriving = np.array(made.inputs.values.array), np.array(gradient(made.output))
    made.forward(run)
    if epilogue == RELU:
        arriving[made.output.values.array <= 0] = 0
    exact = normalisation.BatchNormalisation(32, 3, 4, 8, EPSILON)
    scale, shift = run.parameters["it.scale"], run.parameters["it.shift"]
    mean, variance, target = values.mean((0, 1, 2)), values.var((0, 1, 2)), np.empty_like(values)
    expected = np.empty_like(scale), np.empty_like(shift)
    exact.backward(
        values, arriving, mean, variance, scale, shift, IDENTITY, *expected, target, add=False
    )
    if addend is not None:
        made.flows[1].add = True
        arriving += gradient(addend)
    made.backward(run)
    assert_allclose(gradient(made.inputs), target, rtol=1e-3, atol=1e-4)
    assert_allclose(run.gradients["it.scale"], expected[0], rtol=1e-3, atol=1e-3)
    assert_allclose(run.gradients["it.shift"], expected[1], rtol=1e-3, atol=1e-3)
    if addend is not None:
        assert made.read == (made.inputs, addend)
        assert_array_equal(gradient(addend), arriving)


@pytest.mark.parametrize("epilogue", [RELU, Epilogue("silu")], ids=["relu", "silu"])
def test_values_of_the_output_are_not_read_again(
    stage: Callable[..., BatchNormalisationStage], epilogue: Epilogue
) -> None:
    made, run = stage(epilogue), run_of()
    made.forward(run)
    assert made.values_again == (made.inputs,)
    made.output.values.array.fill(np.nan)
    made.backward(run)
    assert np.isfinite(gradient(made.inputs)).all()


def test_inputs_without_a_gradient_leave_those_of_the_parameters(
    ops: Operations, tensor: MakeTensor
) -> None:
    inputs, output, run = tensor(3, 4, 8, needed=False), tensor(3, 4, 8), run_of()
    stage = BatchNormalisationStage("it", ops, inputs, output, EPSILON, IDENTITY)
    total = gradient(output).sum((0, 1, 2), dtype=np.float64)
    stage.forward(run)
    stage.backward(run)
    assert_allclose(run.gradients["it.shift"], total, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("implementation", ["reference", "numba"], indirect=True)
@pytest.mark.parametrize(("add", "mask"), [(False, False), (True, True)])
def test_local_response(ops: Operations, tensor: MakeTensor, add: bool, mask: bool) -> None:
    numbers = 3, 0.5, 0.75, 2.0
    assert ops.local_response_normalisation is not None
    operation, inputs = ops.local_response_normalisation(*numbers), tensor(3, 4, 8)
    stage = LocalResponseNormalisationStage("it", ops, operation, inputs, tensor(3, 4, 8))
    stage.flows[0].add, stage.flows[0].mask = add, mask
    exact, values = lrn.LocalResponseNormalisation(*numbers), np.array(inputs.values.array)
    out, target = np.empty_like(values), np.array(gradient(inputs))
    exact.forward(values, out)
    exact.backward(values, gradient(stage.output), target, add, values if mask else None)
    stage.forward(Run({}, {}, 32, training=True))
    stage.backward(Run({}, {}, 32, training=True))
    assert stage.values_again == (inputs,)
    assert_allclose(stage.output.values.array, out, rtol=1e-5, atol=1e-6)
    assert_allclose(gradient(inputs), target, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("needed", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 8), (8,)])
def test_layer_normalisation_of_maps_and_vectors(
    ops: Operations, tensor: MakeTensor, shape: tuple[int, ...], needed: bool
) -> None:
    inputs, run = tensor(*shape, needed=needed), run_of()
    operation = ops.layer_normalisation(EPSILON)
    stage = LayerNormalisationStage("it", ops, operation, inputs, tensor(*shape))
    stage.forward(run)
    exact, values = layer_normalisation.LayerNormalisation(EPSILON), np.array(inputs.values.array)
    scale, out, target = run.parameters["it.scale"], np.empty_like(values), np.empty_like(values)
    sums = np.empty(8), np.empty(8)
    exact.forward(values, scale, run.parameters["it.shift"], out)
    exact.backward(values, np.array(gradient(stage.output)), scale, *sums, target)
    stage.backward(run)
    assert stage.values_again == (inputs,)
    assert_allclose(stage.output.values.array, out, rtol=1e-4, atol=1e-5)
    for name, expected in zip(("scale", "shift"), sums, strict=True):
        assert_allclose(run.gradients[f"it.{name}"], expected, rtol=1e-4, atol=1e-3)
    if needed:
        assert_allclose(gradient(inputs), target, rtol=1e-4, atol=1e-4)


def test_vectors_are_normalised_as_maps_of_one_pixel(ops: Operations, tensor: MakeTensor) -> None:
    inputs, output, run = tensor(8), tensor(8), run_of()
    stage = BatchNormalisationStage("it", ops, inputs, output, EPSILON, IDENTITY)
    values = np.array(inputs.values.array)
    stage.forward(run)
    expected = normalised(run, values, values.mean(axis=0), values.var(axis=0))
    assert_allclose(output.values.array, expected, rtol=1e-4, atol=1e-5)
    stage.backward(run)
    distance = run.parameters["it.running_mean"] - values.mean(axis=0)
    assert_allclose(run.gradients["it.running_mean"], distance, rtol=1e-4, atol=1e-5)
