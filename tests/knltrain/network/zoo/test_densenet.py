"""DenseNet, number for number as published."""

from __future__ import annotations

from knltrain.network.layers import Concatenation
from knltrain.network.zoo.densenet import densenet121


def test_maps_grow_by_the_growth_and_are_halved_between_blocks() -> None:
    """Table 1 of the paper."""
    network = densenet121()
    assert network.shape_of("features/denseblock1/denselayer6/cat") == (56, 56, 256)
    assert network.shape_of("features/transition1/pool") == (28, 28, 128)
    assert network.shape_of("features/denseblock4/denselayer16/cat") == (7, 7, 1024)
    assert sum(isinstance(layer, Concatenation) for layer in network.layers) == 6 + 12 + 24 + 16
