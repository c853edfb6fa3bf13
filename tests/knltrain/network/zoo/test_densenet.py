"""DenseNet, number for number as published."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.network.layers import Concatenation
from knltrain.network.network import Network
from knltrain.network.zoo.densenet import densenet121, densenet161, densenet169, densenet201


@pytest.mark.parametrize(
    ("build", "parameters", "multiply_adds", "statistics"),
    [
        (densenet121, 7_978_856, 2834, 83_648),
        (densenet161, 28_681_000, 7728, 219_936),
        (densenet169, 14_149_480, 3360, 158_400),
        (densenet201, 20_013_928, 4291, 229_056),
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


def test_maps_grow_by_the_growth_and_are_halved_between_blocks() -> None:
    """Table 1 of the paper."""
    network = densenet121()
    assert network.shape_of("features/denseblock1/denselayer6/cat") == (56, 56, 256)
    assert network.shape_of("features/transition1/pool") == (28, 28, 128)
    assert network.shape_of("features/denseblock4/denselayer16/cat") == (7, 7, 1024)
    assert sum(isinstance(layer, Concatenation) for layer in network.layers) == 6 + 12 + 24 + 16
