"""MobileNet, number for number as published."""

from __future__ import annotations

from knltrain.network.layers import Addition, Convolution
from knltrain.network.zoo.mobilenet import mobilenet_v2


def test_convolutions_go_channel_by_channel() -> None:
    depthwise = [
        layer
        for layer in mobilenet_v2().layers
        if isinstance(layer, Convolution) and layer.groups > 1
    ]
    assert len(depthwise) == 17
    assert all(layer.groups == layer.filters for layer in depthwise)
    assert sum(isinstance(layer, Addition) for layer in mobilenet_v2().layers) == 10
