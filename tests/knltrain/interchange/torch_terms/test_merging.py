from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import (
    Activation,
    Addition,
    ChannelProduct,
    Concatenation,
    Dense,
    Flatten,
    GlobalAveragePooling,
    ReLU,
)

from ..importing import Forward, images_of, imported_of


def _of(work: Any) -> nn.Module:
    return Forward(work, conv=nn.Conv2d(2, 2, 1))


def test_sums_and_concatenations_are_read() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images)
        both = torch.cat([maps, images], 1)
        maps = maps + images
        maps += images
        return torch.cat([both, maps], dim=-3)

    assert imported_of(_of(work), images_of()).network.layers[1:] == (
        Concatenation("cat", inputs=("conv", "images")),
        Addition("add", inputs=("conv", "images")),
        Addition("add_1", inputs=("add", "images")),
        Concatenation("cat_1", inputs=("cat", "add_1")),
    )


def test_flattened_maps_and_vectors_are_joined() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images)
        flat = maps.flatten(1)
        vector = torch.cat([flat, maps.mean((2, 3))], -1)
        return torch.cat([vector, flat], 1)

    assert imported_of(_of(work), images_of()).network.layers[1:] == (
        GlobalAveragePooling("mean", inputs=("conv",)),
        Flatten("conv.flatten", inputs=("conv",)),
        Concatenation("cat", inputs=("conv.flatten", "mean")),
        Concatenation("cat_1", inputs=("cat", "conv.flatten")),
    )


@pytest.mark.parametrize("last", [False, True])
def test_channels_of_either_order_are_joined_and_excited(last: bool) -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images)
        if not last:
            maps = torch.cat([maps, images], 1)
            return maps * maps.mean((2, 3), keepdim=True).sigmoid()
        maps = torch.cat([maps.permute(0, 2, 3, 1), images.permute(0, 2, 3, 1)], -1)
        return (maps.mean((1, 2), keepdim=True).sigmoid() * maps).permute(0, 3, 1, 2)

    assert imported_of(_of(work), images_of()).network.layers[1:] == (
        Concatenation("cat", inputs=("conv", "images")),
        GlobalAveragePooling("mean", inputs=("cat",)),
        Activation("sigmoid", "sigmoid", inputs=("mean",)),
        ChannelProduct("mul", inputs=("cat", "sigmoid")),
    )


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda own, images: own.conv(images) + own.conv.bias[:, None, None], "with a parameter"),
        (lambda own, images: own.conv(images).add(images, alpha=2), "alpha = 2, only 1"),
        (
            lambda own, images: own.conv(images) + torch.nn.functional.avg_pool2d(images, 8),
            r"a sum of shapes \(2, 8, 8\) and \(2, 1, 1\), expected the same",
        ),
        (lambda own, images: torch.cat([images, own.conv(images)], 2), "expected channels: dim"),
    ],
)
def test_other_sums_and_axes_are_named(work: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(_of(work), images_of())


def squeezed(own: Any, maps: torch.Tensor) -> torch.Tensor:
    """Factors (N, 2, 1, 1), as torchvision's blocks make them."""
    means = torch.nn.functional.adaptive_avg_pool2d(maps, 1)
    return torch.sigmoid(own.second(torch.relu(own.first(means))))


def _excited(work: Any) -> nn.Module:
    parts = {"first": nn.Conv2d(2, 3, 1), "second": nn.Conv2d(3, 2, 1)}
    return Forward(work, conv=nn.Conv2d(2, 2, 1), **parts)


@pytest.mark.parametrize("factors_first", [True, False])
def test_squeeze_and_excitation_is_read_with_dense_layers(factors_first: bool) -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images)
        factors = squeezed(own, maps)
        return factors * maps if factors_first else maps.mul(factors)

    assert imported_of(_excited(work), images_of()).network.layers[1:] == (
        GlobalAveragePooling("adaptive_avg_pool2d", inputs=("conv",)),
        Dense("first", 3, inputs=("adaptive_avg_pool2d",)),
        ReLU("relu", inputs=("first",)),
        Dense("second", 2, inputs=("relu",)),
        Activation("sigmoid", "sigmoid", inputs=("second",)),
        ChannelProduct("mul", inputs=("conv", "sigmoid")),
    )


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda own, images: own.conv(images) * own.conv.bias.sum(), "parameters alone"),
        (lambda own, images: own.conv(images) * float("inf"), "inf beside a layer's output"),
        (lambda own, images: own.conv(images) * images, r"shapes \(2, 8, 8\) and \(2, 8, 8\)"),
        (
            lambda own, images: squeezed(own, images) * images.mean((2, 3), True),
            "a product of shapes",
        ),
    ],
)
def test_other_products_are_named(work: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(_excited(work), images_of())
