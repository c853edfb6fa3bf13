from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.network.layers import ChannelShuffle, ChannelSlice, Concatenation, Flatten

from .prototxts import DATA, layer, layers, net

RELU = layer("ReLU", "", "data", "maps")
FLAT = RELU + layer("Flatten", "", "maps", "flat")


def _slice(tops: str, settings: str = "", bottom: str = "maps") -> str:
    told = " ".join(f'top: "{each}"' for each in tops.split())
    return f'layer {{ name: "cut" type: "Slice" bottom: "{bottom}" {told} {settings} }}\n'


@pytest.mark.parametrize(
    "settings",
    ["", "slice_param { slice_point: 1 slice_point: 2 }", "slice_param { slice_dim: 1 }"],
)
def test_slices_are_at_their_points_or_equal(settings: str) -> None:
    text = RELU + _slice("a cut c", settings) + layer("Concat", "", "c cut a")
    assert layers(text)[1:] == (
        ChannelSlice("cut/1", 0, 1),
        ChannelSlice("cut", 1, 2, ("maps",)),
        ChannelSlice("cut/3", 2, 3, ("maps",)),
        Concatenation("top", ("cut/3", "cut", "cut/1")),
    )


def test_slices_of_several_widths() -> None:
    text = RELU + _slice("a b", "slice_param { slice_point: 1 }") + layer("Concat", "", "b a")
    assert layers(text)[1:3] == (
        ChannelSlice("cut/1", 0, 1),
        ChannelSlice("cut/2", 1, 3, ("maps",)),
    )


def test_flattened_maps_are_cut_as_vectors() -> None:
    text = FLAT + _slice("a b", bottom="flat") + layer("Concat", "", "b a flat")
    assert layers(text)[1:] == (
        Flatten("maps/flat"),
        ChannelSlice("cut/1", 0, 96),
        ChannelSlice("cut/2", 96, 192, ("maps/flat",)),
        Concatenation("top", ("cut/2", "cut/1", "maps/flat")),
    )


def test_shuffle_has_groups() -> None:
    (found,) = layers(layer("ShuffleChannel", "shuffle_channel_param { group: 3 }"))
    assert found == ChannelShuffle("top", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_slice("a b"), r"left out of 3 channels for 2 tops: expected a point between each two"),
        (_slice("a b", "slice_param { slice_point: 3 }"), r"slice_point \[3\] of 3 channels"),
        (_slice("a b", "slice_param { slice_point: 0 }"), r"slice_point \[0\] of 3 channels"),
        (_slice("a b c", "slice_param { slice_point: 1 }"), r"slice_point \[1\] .* for 3 tops"),
        (_slice("a b", "slice_param { axis: 2 }"), r"\['maps'\] along axis 2: expected one bottom"),
        (_slice(""), "expected one bottom"),
        (
            layer("ShuffleChannel", "shuffle_channel_param { group: 2 }", "maps", "cut"),
            "groups = 2, expected a divisor of its 3 input channels",
        ),
        (
            layer("ShuffleChannel", "shuffle_channel_param { group: 0 }", "maps", "cut"),
            "groups",
        ),
        (
            layer("Flatten", "", "maps", "flat") + layer("ShuffleChannel", "", "flat", "cut"),
            "ShuffleChannel of a vector: expected feature maps",
        ),
    ],
)
def test_what_cannot_be_cut_is_told(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"a.prototxt:\d+: .*layer 'cut'.*" + message):
        net(DATA + RELU + text)
