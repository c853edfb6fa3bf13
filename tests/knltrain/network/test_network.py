"""A network infers its shapes and where its parameters lie, or says what does not fit."""

from __future__ import annotations

import dataclasses

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import Convolution, Dense, Layer, MaxPooling, ReLU
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
        ((ReLU("a"), ReLU("a")), "2 layers of network 'bad' are named 'a'"),
        ((ReLU("a.b"),), r"layer name 'a\.b' in network 'bad': expected letters"),
        ((ReLU(""),), "layer name '' in network 'bad'"),
        ((Dense("d", 3), MaxPooling("p", 2, 2)), "layer 'p' needs a feature map"),
        ((MaxPooling("p", 4, 4), Convolution("c", 1, 3)), "layer 'c': a window of 3"),
    ],
)
def test_layers_that_do_not_fit_are_named(layers: tuple[Layer, ...], message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        Network("bad", (8, 8, 1), layers)


@pytest.mark.parametrize("shape", [(8, 8), (8, 0, 1)])
def test_impossible_input_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(NetworkError, match=r"input shape \(8.* expected \(height, width, channels"):
        Network("bad", shape, LAYERS)  # type: ignore[arg-type]
