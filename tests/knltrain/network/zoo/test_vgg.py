"""VGG, number for number as published."""

from __future__ import annotations

import pytest

from knltrain.network.layers import Convolution, Dense
from knltrain.network.zoo.vgg import vgg11, vgg13, vgg16, vgg19

NETWORKS = {"vgg-11": vgg11(), "vgg-13": vgg13(), "vgg-16": vgg16(), "vgg-19": vgg19()}


@pytest.mark.parametrize(
    ("name", "parameters", "multiply_adds", "convolutions"),
    [
        ("vgg-11", 132_863_336, 7.61, 8),
        ("vgg-13", 133_047_848, 11.31, 10),
        ("vgg-16", 138_357_544, 15.47, 13),
        ("vgg-19", 143_667_240, 19.63, 16),
    ],
)
def test_size_and_cost_are_the_published_ones(
    name: str, parameters: int, multiply_adds: float, convolutions: int
) -> None:
    """The paper's table 2 (138 and 144 million); num_params and _ops of torchvision's."""
    network = NETWORKS[name]
    assert network.parameter_count == parameters
    assert network.flops_per_image / 2e9 == pytest.approx(multiply_adds, abs=5e-3)
    assert sum(isinstance(layer, Convolution) for layer in network.layers) == convolutions
    assert sum(isinstance(layer, Dense) for layer in network.layers) == 3


@pytest.mark.parametrize("name", list(NETWORKS))
def test_every_block_halves_the_map(name: str) -> None:
    """Table 1 of the paper."""
    shapes = [NETWORKS[name].shape_of(f"pool{block}") for block in range(1, 6)]
    assert shapes == [(112, 112, 64), (56, 56, 128), (28, 28, 256), (14, 14, 512), (7, 7, 512)]
    assert NETWORKS[name].output_shape == (1000,)


def test_number_of_classes_is_that_of_the_last_layer() -> None:
    assert (vgg16(classes=7).output_shape, vgg19(classes=7).output_shape) == ((7,), (7,))
