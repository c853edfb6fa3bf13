"""Inception-v4 and Inception-ResNet-v2, map for map as published."""

from __future__ import annotations

from knltrain.network.layers import Addition, Affine
from knltrain.network.zoo.inception_v4 import inception_resnet_v2, inception_v4


def test_maps_have_the_published_sizes() -> None:
    network = inception_v4()
    shapes = {
        "mixed_3a": (73, 73, 160),
        "mixed_4a": (71, 71, 192),
        "mixed_5a": (35, 35, 384),
        "a3": (35, 35, 384),
        "b6": (17, 17, 1024),
        "c2": (8, 8, 1536),
    }
    assert {name: network.shape_of(name) for name in shapes} == shapes
    residual = inception_resnet_v2()
    assert residual.shape_of("a9/relu") == (35, 35, 320)
    assert residual.shape_of("b19/relu") == (17, 17, 1088)
    assert residual.shape_of("c9/add") == (8, 8, 2080)


def test_branches_are_scaled_before_they_are_added_but_the_last() -> None:
    layers = inception_resnet_v2().layers
    factors = [layer.factor for layer in layers if isinstance(layer, Affine)]
    assert factors == [0.17] * 10 + [0.1] * 20 + [0.2] * 9
    assert sum(isinstance(layer, Addition) for layer in layers) == 40
    assert "c9/relu" not in {layer.name for layer in layers}
