from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import (
    Addition,
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Concatenation,
    Convolution,
)

from ..importing import Forward, images_of, imported_of

Work = Callable[[Any, torch.Tensor], Any]


def _of(work: Work, **children: nn.Module) -> nn.Module:
    """With a convolution to 6 channels, and parameters of as many values and of others."""
    module = Forward(work, conv=nn.Conv2d(2, 6, 1), **children)
    for name, shape in {
        "gamma": (6,),
        "first": (6, 1, 1),
        "scalar": (1,),
        "square": (6, 6),
    }.items():
        module.register_parameter(name, nn.Parameter(torch.rand(shape)))
    return module


def _layers(work: Work, **children: nn.Module) -> list[Any]:
    """What stands behind the convolution; the example's gradients have been compared."""
    return list(imported_of(_of(work, **children), images_of()).network.layers[1:])


def _halves(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return first + second.relu()


@pytest.mark.parametrize(
    "parts",
    [
        lambda maps: maps.chunk(2, dim=1),
        lambda maps: torch.split(maps, 3, dim=1),
        lambda maps: torch.split(maps, [3, 3], dim=-3),
        lambda maps: torch.tensor_split(maps, 2, dim=1),
        lambda maps: (maps[:, :3], maps[:, 3:]),
        lambda maps: (maps[:, 0:-3], maps[:, -3:, :, :]),
        lambda maps: (torch.narrow(maps, 1, 0, 3), maps.narrow(1, -3, 3)),
    ],
)
def test_parts_of_channels_are_slices(parts: Callable[[torch.Tensor], Any]) -> None:
    first, second, *_ = _layers(lambda own, images: _halves(*parts(own.conv(images))))
    assert (first.first, first.last, first.inputs) == (0, 3, ("conv",))
    assert (second.first, second.last, second.inputs) == (3, 6, ("conv",))


def test_slices_of_channels_last_and_of_vectors_are_slices_too() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images).permute(0, 2, 3, 1)[..., 1:5]
        vector = maps.mean((1, 2))
        return torch.cat([vector[:, :1], *vector.split([3, 1], 1)], 1)

    first, _, *others, joined = _layers(work)
    assert first == ChannelSlice("slice", 1, 5, ("conv",))
    assert [(each.first, each.last, each.inputs) for each in others] == [
        (0, 1, ("mean",)),
        (0, 3, ("mean",)),
        (3, 4, ("mean",)),
    ]
    assert isinstance(joined, Concatenation)


def test_channels_that_are_taken_twice_or_not_at_all_are_right() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images)
        _, middle, _ = maps.chunk(3, 1)
        return torch.cat([middle, maps[:, 1:4], maps], 1)

    found = _layers(work)
    assert [(each.first, each.last) for each in found[:2]] == [(2, 4), (1, 4)]
    assert found[2].inputs[-1] == "conv"


def test_slices_of_everything_are_no_layers() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        (whole,) = own.conv(images[:, :, :]).split(6, 1)
        return whole[:, 0:6]

    assert _layers(work) == []


def _shuffled(maps: torch.Tensor, groups: int, how: str) -> torch.Tensor:
    images, channels, height, width = maps.shape
    grouped = maps.view(images, groups, channels // groups, height, width)
    if how == "transpose":
        return grouped.transpose(1, 2).contiguous().view(images, -1, height, width)
    if how == "permute":
        return grouped.permute(0, 2, 1, 3, 4).reshape(images, channels, height, width)
    return grouped.swapaxes(1, 2).flatten(1, 2)


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("how", ["transpose", "permute", "swapaxes"])
def test_groups_that_change_places_with_their_members_are_shuffles(how: str, groups: int) -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        return _shuffled(own.conv(images), groups, how)

    assert _layers(work) == [ChannelShuffle("channel_shuffle", groups, ("conv",))]


def test_shuffles_of_modules_have_their_names() -> None:
    found = _layers(lambda own, images: own.mix(own.conv(images)), mix=nn.ChannelShuffle(3))
    assert found == [ChannelShuffle("mix", 3, ("conv",))]


def test_groups_that_stay_are_no_layer() -> None:
    found = _layers(lambda own, images: own.conv(images).unflatten(1, (2, 3)).flatten(1, 2))
    assert found == []


def test_a_block_of_shufflenet_is_read() -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        kept, taken = own.conv(images).chunk(2, dim=1)
        return _shuffled(torch.cat((kept, own.branch(taken)), dim=1), 2, "transpose")

    assert _layers(work, branch=nn.Conv2d(3, 3, 3, padding=1, groups=3)) == [
        ChannelSlice("chunk", 0, 3, ("conv",)),
        ChannelSlice("chunk_1", 3, 6, ("conv",)),
        Convolution("branch", 3, 3, padding=1, groups=3, inputs=("chunk_1",)),
        Concatenation("cat", ("chunk", "branch")),
        ChannelShuffle("channel_shuffle", 2, ("cat",)),
    ]


@pytest.mark.parametrize(
    "scaled",
    [
        lambda own, maps: own.first * maps,
        lambda own, maps: maps * own.first,
        lambda own, maps: maps.mul(own.gamma[:, None, None]),
        lambda own, maps: maps * own.gamma.reshape(1, -1, 1, 1),
        lambda own, maps: (maps.permute(0, 2, 3, 1) * own.gamma).permute(0, 3, 1, 2),
    ],
)
def test_products_with_a_factor_for_each_channel_are_scales(scaled: Work) -> None:
    def work(own: Any, images: torch.Tensor) -> torch.Tensor:
        maps = own.conv(images)
        return scaled(own, maps) + maps

    scale, total = _layers(work)
    assert scale == ChannelScale("mul", inputs=("conv",))
    assert total == Addition("add", ("mul", "conv"))


def test_vectors_are_scaled_and_the_factors_come_back() -> None:
    module = _of(lambda own, images: own.gamma * own.conv(images).mean((2, 3)))
    imported = imported_of(module, images_of())
    assert imported.keys["mul.scale"] == "gamma"
    imported.parameters.views["mul.scale"][2] = 9
    assert imported.to_torch().gamma[2] == 9


def _in_place_of_a_part(own: Any, images: torch.Tensor) -> torch.Tensor:
    maps = own.conv(images)
    maps[:, :3].relu_()
    return maps


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda own, images: own.conv(images) * own.scalar, r"of shape \(1,\), expected a factor"),
        (lambda own, images: own.conv(images) * own.square[0, 0], "parameters alone"),
        (
            lambda own, images: own.conv(images).flatten(1) * own.scalar,
            "a product of flattened maps and a parameter",
        ),
        (
            lambda own, images: own.conv(images)[:, : images.shape[0]],
            "expected whole numbers|has no graph",
        ),
        (_in_place_of_a_part, "relu_ changes in place what is also seen"),
        (
            lambda own, images: own.conv(images)[:, :, :, :6] * own.gamma,
            "dim = 3, expected channels: dim = 1",
        ),
        (
            lambda own, images: (own.conv(images) * own.first) * own.first,
            "'first' is a parameter of 'mul', too",
        ),
        (lambda own, images: own.conv(images)[:, ::2], "step = 2, only 1 is supported"),
        (lambda own, images: own.conv(images)[:, :, 2:], "dim = 2, expected channels: dim = 1"),
        (lambda own, images: own.conv(images).chunk(2, 2)[0], "dim = 2, expected channels"),
        (lambda own, images: own.conv(images)[:, 2], "unknown operation 'select'"),
        (lambda own, images: own.conv(images).transpose(2, 3), "expected channels to the end or"),
        (
            lambda own, images: own.conv(images).view(-1, 2, 3, 8, 8).transpose(1, 3),
            "transpose to .*expected channels to the end or back",
        ),
        (
            lambda own, images: own.conv(images).view(-1, 2, 3, 8, 8).relu(),
            "relu of groups of channels, expected feature maps",
        ),
    ],
)
def test_what_is_no_selection_of_channels_is_named(work: Work, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(_of(work), images_of())
