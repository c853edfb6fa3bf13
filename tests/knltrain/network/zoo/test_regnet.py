"""RegNet, number for number as published."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knltrain.network.network import Network
from knltrain.network.zoo.regnet import regnet_x_8gf, regnet_x_400mf


@pytest.mark.parametrize(
    ("build", "parameters", "multiply_adds", "statistics"),
    [
        (regnet_x_400mf, 5_495_976, 414, 37_856),
        (regnet_x_8gf, 39_572_648, 7995, 90_464),
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


def test_widths_follow_the_line() -> None:
    network = regnet_x_400mf()
    shapes = [network.shape_of(f"block{stage}/0/relu") for stage in (1, 2, 3, 4)]
    assert shapes == [(56, 56, 32), (28, 28, 64), (14, 14, 160), (7, 7, 400)]
