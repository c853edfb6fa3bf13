"""GoogLeNet as torchvision has it."""

from __future__ import annotations

from knltrain.network.zoo.googlenet_torchvision import googlenet_torchvision


def test_sizes_round_up_and_heads_pool_to_4x4() -> None:
    network = googlenet_torchvision()
    shapes = {
        "maxpool1": (56, 56, 64),
        "inception3b": (28, 28, 480),
        "inception4e": (14, 14, 832),
        "inception5b": (7, 7, 1024),
        "aux1/pool": (4, 4, 512),
        "aux2/pool": (4, 4, 528),
    }
    assert {name: network.shape_of(name) for name in shapes} == shapes


def test_heads_have_their_share_of_the_parameters() -> None:
    network = googlenet_torchvision()
    heads = sum(
        spec.size
        for spec in network.parameters
        if spec.layer.startswith("aux") and not spec.is_statistic
    )
    assert network.parameter_count - heads == 6_624_904
    assert [output.weight for output in network.outputs] == [1.0, 0.3, 0.3]
