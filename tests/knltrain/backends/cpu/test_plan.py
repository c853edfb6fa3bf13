from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from knltrain.backends.cpu.plan import Plan
from knltrain.errors import NetworkError
from knltrain.network.layers import (
    Convolution,
    Dense,
    Layer,
    MaxPooling,
    ParameterSpec,
    ReLU,
    Shape,
)
from knltrain.network.lenet import lenet
from knltrain.network.network import Network
from vectorized_ops.implementations import IMPLEMENTATIONS, operations


def kinds(plan: Plan) -> list[tuple[str, str]]:
    """Names of the stages, and what they do: the operation where a stage takes several."""
    return [
        (stage.name, type(getattr(stage, "operation", stage)).__name__.removesuffix("Stage"))
        for stage in plan.stages
    ]


def test_lenet_of_numba_is_fused_and_flattened_without_a_copy() -> None:
    plan = Plan(lenet(), 16, operations("numba"))
    assert kinds(plan) == [
        ("conv1", "PooledConvolution"),
        ("conv2", "PooledConvolution"),
        ("ip1", "Dense"),
        ("relu1", "ReLU"),
        ("ip2", "Dense"),
    ]


@pytest.mark.parametrize("implementation", ["reference", "onednn"])
def test_lenet_of_the_others_runs_layer_by_layer_and_copies_into_vectors(
    implementation: str,
) -> None:
    plan = Plan(lenet(), 16, operations(implementation))
    assert kinds(plan) == [
        ("conv1", "Convolution"),
        ("pool1", "MaxPooling"),
        ("conv2", "Convolution"),
        ("pool2", "MaxPooling"),
        ("ip1", "Flatten"),
        ("ip1", "Dense"),
        ("relu1", "ReLU"),
        ("ip2", "Dense"),
    ]


def test_map_of_one_pixel_is_a_vector_without_a_copy() -> None:
    network = Network("pixel", (3, 3, 2), (Convolution("conv", 4, 3), Dense("out", 2)))
    plan = Plan(network, 5, operations("reference"))
    assert kinds(plan) == [("conv", "Convolution"), ("out", "Dense")]


@pytest.mark.parametrize(
    ("convolution", "pooling", "fused"),
    [
        ({}, {}, True),
        ({"stride": 2}, {}, False),
        ({"padding": 1}, {}, False),
        ({}, {"kernel": 3}, False),
        ({}, {"stride": 1}, False),
    ],
)
def test_only_a_plain_convolution_and_2x2_pooling_are_fused(
    convolution: dict[str, int], pooling: dict[str, int], fused: bool
) -> None:
    layers = (
        Convolution("conv", 4, 3, **convolution),
        MaxPooling("pool", **{"kernel": 2, "stride": 2, **pooling}),
        Dense("out", 2),
    )
    plan = Plan(Network("small", (12, 12, 2), layers), 16, operations("numba"))
    assert (kinds(plan)[0] == ("conv", "PooledConvolution")) is fused
    assert len(plan.stages) == (2 if fused else 3)


def test_convolution_apart_from_its_pooling_is_not_fused() -> None:
    layers = (Convolution("conv", 4, 3), ReLU("relu"), MaxPooling("pool", 2, 2), Dense("out", 2))
    plan = Plan(Network("small", (12, 12, 2), layers), 16, operations("numba"))
    assert [kind for _, kind in kinds(plan)] == ["Convolution", "ReLU", "MaxPooling", "Dense"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_stages_hand_on_shapes_and_gradients(implementation: str, network: Network) -> None:
    batch = operations(implementation).activations((18, 1)).shape[0]
    plan = Plan(network, 18, operations(implementation))
    assert plan.input.values.shape == (batch, *network.input_shape)
    assert plan.input.gradient is None  # nobody needs that of the images
    assert plan.output is plan.stages[-1].output
    assert plan.output.values.shape == (batch, *network.shapes[-1])
    for stage in plan.stages:
        if stage.output is not plan.input:
            assert stage.output.gradient is not None or stage.name == network.layers[0].name
        if stage.output.gradient is not None:
            assert stage.output.gradient.shape == stage.output.values.shape
            assert not np.shares_memory(stage.output.gradient, stage.output.values)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "layers",
    [
        (Convolution("conv", 4, 3),),
        (Dense("hidden", 4), ReLU("relu")),
        (ReLU("relu"),),
        (Convolution("conv", 4, 3), MaxPooling("pool", 2, 2)),
    ],
)
def test_only_networks_that_end_in_classes_are_taken(
    layers: tuple[Layer, ...], implementation: str
) -> None:
    network = Network("open", (8, 8, 2), layers)
    if isinstance(layers[0], Dense):
        Plan(network, 16, operations(implementation))
        return
    with pytest.raises(NetworkError, match=r"network 'open' ends in .* expected a dense layer"):
        Plan(network, 16, operations(implementation))


@dataclass(frozen=True, slots=True)
class Dropout(Layer):
    name: str

    def output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def parameters(self, input_shape: Shape) -> tuple[ParameterSpec, ...]:
        return ()

    def flops(self, input_shape: Shape) -> int:
        return 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_unknown_layer_is_refused_with_the_way_out(implementation: str) -> None:
    network = Network("new", (8, 8, 2), (Dropout("drop"), Dense("out", 2)))
    with pytest.raises(NetworkError, match=r"layer 'drop' is a Dropout.*backend\.name = .torch."):
        Plan(network, 16, operations(implementation))
