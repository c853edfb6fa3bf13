from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.interchange.to_torch import to_torch
from knltrain.network.layers import (
    Activation,
    Addition,
    BatchNormalisation,
    ChannelScale,
    Convolution,
    Dense,
    Flatten,
    LayerNormalisation,
    LocalResponseNormalisation,
)

from ..importing import Forward, images_of, imported_of


class LayerNorm2d(nn.LayerNorm):
    """As in torchvision and timm."""

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        maps = maps.permute(0, 2, 3, 1)
        maps = F.layer_norm(maps, self.normalized_shape, self.weight, self.bias, self.eps)
        return maps.permute(0, 3, 1, 2)


def test_normalisations_are_read_with_their_statistics() -> None:
    module = nn.Sequential(
        nn.Conv2d(2, 4, 1),
        nn.BatchNorm2d(4, eps=1e-3, momentum=0.3),
        nn.LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2.0),
    )
    imported = imported_of(module, images_of())
    assert imported.network.layers[1:] == (
        BatchNormalisation("1", 1e-3, 0.3, inputs=("0",)),
        LocalResponseNormalisation("2", 3, 0.5, 0.6, 2.0, inputs=("1",)),
    )
    assert imported.parameters.views["1.running_variance"].min() >= 0.5
    assert imported.keys["1.scale"] == "1.weight"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.BatchNorm2d(2, affine=False), "without weight, expected affine=True"),
        (nn.BatchNorm2d(2, track_running_stats=False), "without running_mean, expected"),
    ],
)
def test_batch_normalisation_without_parameters_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())


def test_batch_normalisation_that_is_in_evaluation_is_frozen() -> None:
    module = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(128, 3))
    module[1].eval()
    with torch.no_grad():
        module[1].running_mean.uniform_()
    images = torch.randn(3, 2, 8, 8)
    imported = from_torch(module, images)
    normalised = imported.network.layers[1]
    assert isinstance(normalised, BatchNormalisation)
    assert normalised.frozen
    other = to_torch(imported.network, imported.parameters).train()
    before = imported.parameters.packed.copy()
    assert torch.allclose(other(images), module(images), atol=1e-5)
    assert np.array_equal(imported.parameters.packed, before)
    whole = from_torch(module.eval(), images).network.layers[1]
    assert isinstance(whole, BatchNormalisation)
    assert not whole.frozen  # A whole module in evaluation is one that is to be trained.


def test_vectors_are_normalised_over_the_batch() -> None:
    module = nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(128), nn.Linear(128, 4), nn.BatchNorm1d(4, momentum=0.3)
    )
    assert imported_of(module, images_of()).network.layers == (
        Flatten("images.flatten", inputs=("images",)),
        BatchNormalisation("1", inputs=("images.flatten",)),
        Dense("2", 4, inputs=("1",)),
        BatchNormalisation("3", momentum=0.3, inputs=("2",)),
    )


def test_channels_are_normalised_of_maps_means_and_vectors() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.last(own.first(own.conv(images)).movedim(1, 3))
        means = own.of_means(maps.permute(0, 3, 1, 2).mean((2, 3), keepdim=True))
        return own.of_vectors(means.flatten(1))

    parts = {"first": LayerNorm2d(4, eps=1e-6), "of_means": LayerNorm2d(4)}
    last, vectors = nn.LayerNorm(4, eps=0.1), nn.LayerNorm(4)
    module = Forward(work, conv=nn.Conv2d(2, 4, 1), last=last, of_vectors=vectors, **parts)
    imported = imported_of(module, images_of())
    norms = [each for each in imported.network.layers if isinstance(each, LayerNormalisation)]
    assert [(each.inputs, each.epsilon) for each in norms] == [
        (("conv",), 1e-6),
        ((norms[0].name,), 0.1),
        (("mean",), 1e-5),
        ((norms[2].name,), 1e-5),
    ]
    assert imported.keys["last.scale"] == "last.weight"


class Block(nn.Module):
    """Of ConvNeXt, in torchvision's way or in that of its authors."""

    def __init__(self, channels: int, first: bool) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.wide, self.narrow = nn.Linear(channels, 8), nn.Linear(8, channels)
        self.gamma = nn.Parameter(torch.full((channels, 1, 1) if first else (channels,), 0.5))
        self.first = first

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        branch = self.norm(self.depthwise(maps).permute(0, 2, 3, 1))
        branch = self.narrow(F.gelu(self.wide(branch)))
        if self.first:
            return maps + self.gamma * branch.permute(0, 3, 1, 2)
        return maps + (self.gamma * branch).permute(0, 3, 1, 2)


@pytest.mark.parametrize("first", [False, True])
def test_a_block_of_convnext_is_read(first: bool) -> None:
    module = nn.Sequential(nn.Conv2d(2, 4, 1), Block(4, first))
    imported = imported_of(module, images_of())
    assert imported.network.layers[1:] == (
        Convolution("1.depthwise", 4, 3, padding=1, groups=4, inputs=("0",)),
        LayerNormalisation("1.norm", 1e-6, inputs=("1.depthwise",)),
        Convolution("1.wide", 8, 1, inputs=("1.norm",)),
        Activation("1.gelu", "gelu", inputs=("1.wide",)),
        Convolution("1.narrow", 4, 1, inputs=("1.gelu",)),
        ChannelScale("1.mul", inputs=("1.narrow",)),
        Addition("1.add", inputs=("0", "1.mul")),
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.LayerNorm([2, 8, 8]), "layer_norm of feature maps, expected vectors or .* last"),
        (nn.LayerNorm(8), "layer_norm of feature maps, expected"),
        (
            Forward(lambda own, images: own.n(images.permute(0, 2, 3, 1)), n=nn.LayerNorm([8, 2])),
            r"over \(8, 2\), expected channels alone, which come last: \(2,\)",
        ),
        (
            Forward(
                lambda own, images: own.n(images.permute(0, 2, 3, 1)), n=nn.LayerNorm(2, bias=False)
            ),
            "without bias, expected elementwise_affine=True",
        ),
        (nn.GroupNorm(1, 2), "unknown operation 'group_norm'"),
    ],
)
def test_other_layer_normalisations_are_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())
