"""MobileNet-v3, block for block as published."""

from __future__ import annotations

from knltrain.network.layers import (
    Activation,
    Addition,
    BatchNormalisation,
    ChannelProduct,
    Dense,
    ReLU,
)
from knltrain.network.zoo.mobilenet_v3 import mobilenet_v3_large, mobilenet_v3_small


def test_early_blocks_have_relus_and_later_ones_hard_swish() -> None:
    network = mobilenet_v3_large()
    rectified = {layer.name.split("/")[1] for layer in network.layers if type(layer) is ReLU}
    assert rectified >= {"1", "2", "6"}
    hard = [layer for layer in network.layers if isinstance(layer, Activation)]
    assert {layer.function for layer in hard} == {"hard_swish", "hard_sigmoid"}
    assert sum(layer.function == "hard_sigmoid" for layer in hard) == 8
    assert network.shape_of("features/7/depthwise") == (14, 14, 240)


def test_factors_are_made_of_a_quarter_of_the_channels() -> None:
    for network, products, additions in (mobilenet_v3_large(), 8, 10), (mobilenet_v3_small(), 9, 6):
        layers = network.layers
        assert sum(isinstance(layer, ChannelProduct) for layer in layers) == products
        assert sum(isinstance(layer, Addition) for layer in layers) == additions
    units = [layer.units for layer in layers if isinstance(layer, Dense) and "se/fc1" in layer.name]
    assert units == [8, 24, 64, 64, 32, 40, 72, 144, 144]


def test_statistics_decay_by_a_hundredth() -> None:
    found = {
        (layer.epsilon, layer.momentum)
        for layer in mobilenet_v3_small().layers
        if isinstance(layer, BatchNormalisation)
    }
    assert found == {(1e-3, 0.01)}
