"""SqueezeNet, number for number as published."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.network.network import Network
from knltrain.network.zoo.squeezenet import squeezenet1_0, squeezenet1_1


@pytest.mark.parametrize(
    ("build", "parameters", "multiply_adds", "statistics"),
    [
        (squeezenet1_0, 1_248_424, 819, 0),
        (squeezenet1_1, 1_235_496, 349, 0),
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


def test_maps_have_the_sizes_of_the_paper() -> None:
    """Table 1 of the paper, whose first convolution has a padding that torchvision's has not."""
    network = squeezenet1_0()
    sizes = [network.shape_of(f"features/{number}") for number in (0, 2, 6, 11)]
    assert sizes == [(109, 109, 96), (54, 54, 96), (27, 27, 256), (13, 13, 512)]
