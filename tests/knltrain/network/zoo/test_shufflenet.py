"""ShuffleNet-v2, block for block as published."""

from __future__ import annotations

from knltrain.network.layers import ChannelShuffle, ChannelSlice
from knltrain.network.zoo.shufflenet import shufflenet_v2_x1_0


def test_each_block_but_the_first_of_a_stage_lets_half_of_the_channels_pass() -> None:
    network = shufflenet_v2_x1_0()
    (joined,) = (layer for layer in network.layers if layer.name == "stage3/5/cat")
    shuffles = [layer for layer in network.layers if isinstance(layer, ChannelShuffle)]
    slices = [layer for layer in network.layers if isinstance(layer, ChannelSlice)]
    assert len(shuffles) == 4 + 8 + 4
    assert len(slices) == 2 * (3 + 7 + 3)
    assert network.inputs_of(joined) == (
        "stage3/5/kept",
        "stage3/5/branch2/7",
    )
    assert network.shape_of("stage3/5/kept") == (14, 14, 116)
    assert network.shape_of("stage4/3/shuffle") == (7, 7, 464)


def test_parameters_have_torchvision_s_names() -> None:
    found = {spec.layer.replace("/", ".") for spec in shufflenet_v2_x1_0().parameters}
    block = {f"stage3.5.branch2.{number}" for number in (0, 1, 3, 4, 5, 6)}
    first = {f"stage2.0.branch1.{number}" for number in range(4)}
    assert {"conv1.0", "conv1.1", "conv5.0", "conv5.1", "fc"} | block | first <= found
    assert len(found) == 2 * (2 + 3 * 5 + 13 * 3) + 1
