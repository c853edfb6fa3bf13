"""A network infers its shapes and where its parameters lie, or says what does not fit."""

from __future__ import annotations

import dataclasses

import pytest

from knltrain.errors import NetworkError
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Addition,
    BatchNormalisation,
    Convolution,
    Dense,
    Layer,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network

LAYERS: tuple[Layer, ...] = (
    Convolution("conv", 3, 3),
    ReLU("relu"),
    MaxPooling("pool", 2, 2),
    Dense("dense", 5),
)


def test_shapes_run_from_the_input_to_the_output() -> None:
    network = Network("tiny", (8, 6, 2), LAYERS)
    assert network.shapes == ((8, 6, 2), (6, 4, 3), (6, 4, 3), (3, 2, 3), (5,))


def test_parameters_are_packed_in_layer_order_at_64_byte_offsets() -> None:
    network = Network("tiny", (8, 6, 2), LAYERS)
    assert [(spec.name, spec.shape, spec.offset) for spec in network.parameters] == [
        ("conv.weights", (3, 2, 3, 3), 0),  # 54 values
        ("conv.bias", (3,), 64),
        ("dense.weights", (5, 18), 80),  # 90 values
        ("dense.bias", (5,), 176),
    ]
    assert network.packed_size == 192
    assert network.parameter_count == 54 + 3 + 90 + 5


def test_training_flops_leave_out_the_gradient_of_the_images() -> None:
    network = Network("tiny", (8, 6, 2), LAYERS)
    convolution, dense = 2 * 6 * 4 * 3 * 2 * 9, 2 * 5 * 18
    assert network.flops_per_image == convolution + dense
    assert network.training_flops_per_image == 2 * convolution + 3 * dense


def test_nothing_in_front_of_the_first_parameters_needs_a_gradient() -> None:
    network = Network("pooled", (8, 8, 1), (MaxPooling("pool", 2, 2), Dense("dense", 3)))
    assert network.training_flops_per_image == 2 * (2 * 3 * 16)


def test_network_without_parameters_has_an_empty_packed_vector() -> None:
    network = Network("still", (8, 8, 1), (ReLU("relu"),))
    assert (network.packed_size, network.parameter_count) == (0, 0)
    assert network.training_flops_per_image == 0


def test_network_is_frozen_and_compared_by_value() -> None:
    network = Network("tiny", (8, 6, 2), LAYERS)
    assert network == Network("tiny", (8, 6, 2), LAYERS)
    assert network != Network("tiny", (8, 6, 1), LAYERS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        network.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((), "network 'bad' has no layers"),
        ((Dense("d", 3), MaxPooling("p", 2, 2)), "layer 'p' needs a feature map"),
        ((MaxPooling("p", 4, 4), Convolution("c", 1, 3)), "layer 'c': a window of 3"),
        ((ReLU("a"), ReLU("b", inputs=("images",))), r"no output .* depends on \['a'\]"),
        ((ReLU("a"), ReLU("b", inputs=("c",))), "unknown input of layer 'b' .* 'c'"),
    ],
)
def test_layers_that_do_not_fit_are_named(layers: tuple[Layer, ...], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        Network("bad", (8, 8, 1), layers)


@pytest.mark.parametrize("shape", [(8, 8), (8, 0, 1)])
def test_impossible_input_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(NetworkError, match=r"input shape \(8.* expected \(height, width, channels"):
        Network("bad", shape, LAYERS)  # type: ignore[arg-type]


def test_layers_are_asked_for_inputs_shapes_and_takers(branched: Network) -> None:
    layer = {each.name: each for each in branched.layers}
    assert branched.inputs_of(layer["stem/conv"]) == ("images",)
    assert branched.inputs_of(layer["joined"]) == ("small", "right")
    assert branched.input_shapes(layer["joined"]) == ((3, 5, 4), (3, 5, 4))
    assert branched.shape_of("images") == (9, 8, 2)
    assert branched.shape_of("joined") == (3, 5, 8)
    assert branched.output_shape == branched.shape_of("main") == (3,)
    assert branched.consumers("images") == ("stem/conv",)
    assert branched.consumers("lrn") == ("left", "sum", "right")
    assert branched.consumers("main") == ()


def test_evaluation_needs_only_what_leads_to_the_first_output(branched: Network) -> None:
    names = [layer.name for layer in branched.layers]
    assert branched.needed_for(branched.outputs) == branched.layers
    needed = [layer.name for layer in branched.needed_for(branched.outputs[:1])]
    assert needed == [name for name in names if not name.startswith("aside")]


def test_output_need_not_be_the_last_layer() -> None:
    outputs = (Output("first"), Output("second", 0.5))
    layers = (Dense("first", 2), Dense("second", 2, inputs=("images",)))
    network = Network("two", (1, 1, 3), layers, outputs)
    assert (network.outputs, network.output_shape) == (outputs, (2,))


def test_last_layer_is_the_output_by_default() -> None:
    network = Network("tiny", (8, 6, 2), LAYERS)
    assert network.outputs == (Output("dense", 1.0),)
    assert network == Network("tiny", (8, 6, 2), LAYERS, (Output("dense"),))


def test_statistics_are_packed_but_are_no_parameters() -> None:
    layers = (Convolution("conv", 3, 3, bias=False), BatchNormalisation("norm"), Dense("out", 2))
    network = Network("normalised", (3, 3, 2), layers)
    assert [(spec.name, spec.offset) for spec in network.parameters] == [
        ("conv.weights", 0),
        ("norm.scale", 64),
        ("norm.shift", 80),
        ("norm.running_mean", 96),
        ("norm.running_variance", 112),
        ("out.weights", 128),
        ("out.bias", 144),
    ]
    assert (network.parameter_count, network.statistic_count) == (54 + 6 + 6 + 2, 6)


def test_gradient_is_needed_behind_the_first_trained_parameters_only() -> None:
    layers = (
        MaxPooling("pool", 2, 2),
        Convolution("one", 3, 1),
        ReLU("relu"),
        Convolution("two", 3, 1, inputs=("pool",)),
        Addition("sum", ("relu", "two")),
        Dense("out", 5),
    )
    network = Network("two sources", (8, 8, 1), layers)
    needing = [each.name for each in layers if network.needs_gradient(each.name)]
    assert needing == ["one", "relu", "two", "sum", "out"]
    assert not network.needs_gradient("images")
    convolution, dense = 2 * 16 * 3, 2 * 5 * 48
    assert network.training_flops_per_image == 2 * (2 * convolution) + 3 * dense
