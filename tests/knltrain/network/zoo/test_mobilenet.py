"""MobileNet, number for number as published."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.network.layers import Addition, Convolution
from knltrain.network.network import Network
from knltrain.network.zoo.mobilenet import mobilenet_v1, mobilenet_v2


@pytest.mark.parametrize(
    ("build", "parameters", "multiply_adds", "statistics"),
    [
        (mobilenet_v1, 4_231_976, 568.7, 21_888),
        (mobilenet_v2, 3_504_872, 301, 34_112),
    ],
)
def test_size_and_cost_are_the_published_ones(
    build: Callable[..., Network], parameters: int, multiply_adds: float, statistics: int
) -> None:
    """num_params and _ops of torchvision, and counts of its modules."""
    network = build()
    assert network.parameter_count == parameters
    assert network.flops_per_image / 2e6 == pytest.approx(multiply_adds, rel=5e-3)
    assert network.statistic_count == statistics
    assert network.output_shape == (1000,)
    assert build(classes=7).output_shape == (7,)


def test_convolutions_go_channel_by_channel() -> None:
    depthwise = [
        layer
        for layer in mobilenet_v2().layers
        if isinstance(layer, Convolution) and layer.groups > 1
    ]
    assert len(depthwise) == 17
    assert all(layer.groups == layer.filters for layer in depthwise)
    assert sum(isinstance(layer, Addition) for layer in mobilenet_v2().layers) == 10
