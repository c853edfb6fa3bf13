from __future__ import annotations

import pytest
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import (
    AdaptiveAveragePooling,
    AveragePooling,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
)

from ..importing import Forward, images_of, imported_of


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        (nn.MaxPool2d(2), MaxPooling("1", 2, 2, inputs=("0",))),
        (
            nn.MaxPool2d((2, 3), 1, (1, 0), ceil_mode=True),
            MaxPooling("1", (2, 3), 1, (1, 0), ceil=True, inputs=("0",)),
        ),
        (
            nn.AvgPool2d(3, 2, 1, ceil_mode=True),
            AveragePooling("1", 3, 2, 1, ceil=True, inputs=("0",)),
        ),
        (
            nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False),
            AveragePooling("1", 3, 2, ceil=True, inputs=("0",)),
        ),
        (
            nn.AvgPool2d(3, 1, 1, count_include_pad=False),
            AveragePooling("1", 3, 1, 1, counts_padding=False, inputs=("0",)),
        ),
        (nn.AdaptiveAvgPool2d((7, 3)), AdaptiveAveragePooling("1", 7, 3, inputs=("0",))),
        (nn.AdaptiveAvgPool2d((4, 2)), AveragePooling("1", (2, 4), (2, 4), inputs=("0",))),
        (
            nn.Sequential(nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten()),
            GlobalAveragePooling("1.0", inputs=("0",)),
        ),
        (
            Forward(lambda _, maps: maps.mean((-1, -2))),
            GlobalAveragePooling("1.mean", inputs=("0",)),
        ),
        (
            Forward(lambda _, maps: maps.mean((2, 3), keepdim=True).view(maps.size(0), -1)),
            GlobalAveragePooling("1.mean", inputs=("0",)),
        ),
    ],
)
def test_every_setting_is_read(module: nn.Module, layer: Layer) -> None:
    whole = nn.Sequential(nn.Conv2d(2, 2, 1), module)
    assert imported_of(whole, images_of()).network.layers[1:] == (layer,)


def test_pooling_to_the_size_that_maps_have_is_no_layer() -> None:
    whole = nn.Sequential(nn.Conv2d(2, 2, 1), nn.AdaptiveAvgPool2d(8))
    assert len(imported_of(whole, images_of()).network.layers) == 1


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.MaxPool2d(2, dilation=2), r"dilation = \[2, 2\], only 1 is supported|dilation = 2"),
        (nn.AvgPool2d(3, divisor_override=4), "divisor_override = 4, only None"),
        (Forward(lambda _, maps: maps.mean(1)), "mean over axes .1., expected that of whole maps"),
    ],
)
def test_poolings_that_a_network_has_not_are_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())
