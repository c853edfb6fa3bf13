"""Squeeze and excitation as layers."""

from __future__ import annotations

from knltrain.network.graph import Output
from knltrain.network.layers import Activation, ChannelProduct, Convolution, Dense, ReLU
from knltrain.network.network import Network
from knltrain.network.zoo.excitation import excited


def test_channels_are_squeezed_and_become_factors() -> None:
    layers = excited("se", "conv", channels=8, squeezed=2, gate="sigmoid")
    network = Network(
        "n", (6, 6, 3), (Convolution("conv", 8, 3), *layers, Dense("out", 4)), (Output("out"),)
    )
    assert network.shape_of("se/fc1") == (2,)
    assert network.shape_of("se") == network.shape_of("conv")
    assert isinstance(layers[2], ReLU)
    assert layers[-1] == ChannelProduct("se", ("conv", "se/gate"))


def test_the_function_in_between_is_chosen() -> None:
    layers = excited("se", "conv", 8, 2, "hard_sigmoid", inner="silu")
    assert [layer.function for layer in layers if isinstance(layer, Activation)] == [
        "silu",
        "hard_sigmoid",
    ]
