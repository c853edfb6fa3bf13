"""Inception-v3, map for map as published."""

from __future__ import annotations

from knltrain.network.zoo.inception_v3 import inception_v3


def test_maps_have_the_published_sizes() -> None:
    network = inception_v3()
    shapes = {
        "stem/pool": (73, 73, 64),
        "stem/pool2": (35, 35, 192),
        "mixed_5b": (35, 35, 256),
        "mixed_5d": (35, 35, 288),
        "mixed_6e": (17, 17, 768),
        "auxiliary/conv/1/relu": (1, 1, 768),
        "mixed_7c": (8, 8, 2048),
    }
    assert {name: network.shape_of(name) for name in shapes} == shapes


def test_the_auxiliary_head_has_its_share_of_the_parameters() -> None:
    network = inception_v3()
    assert [output.weight for output in network.outputs] == [1.0, 0.4]
    head = sum(
        spec.size
        for spec in network.parameters
        if spec.layer.startswith("auxiliary/") and not spec.is_statistic
    )
    assert network.parameter_count - head == 23_834_568
