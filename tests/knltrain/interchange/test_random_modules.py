"""Random modules with random forwards are imported and compute the same, or are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812

from .importing import images_of, imported_of

CHANNELS = 4
KINDS = (
    *("conv", "depthwise", "strided", "norm", "lrn", "relu", "relu_", "leaky", "relu6"),
    *("max", "mean", "sum", "sum_", "cat", "dropout", "identity", "excited", "double"),
    *("shuffled", "parts", "slices", "norm last", "gamma", "dense last"),
    *("silu", "gelu", "tanh", "hardswish", "sigmoid", "hardsigmoid", "scaled", "reversed"),
    *("prelu", "shared", "padded", "padded maximum"),
)


LOWEST = float("-inf")


class Gamma(nn.Module):
    """A factor for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.linspace(0.5, 1.5, CHANNELS))

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return maps * self.gamma.view(1, -1, 1, 1)


class Program(nn.Module):
    """Steps on maps, each of the newest value and of an earlier one; then a head."""

    def __init__(self, steps: Sequence[tuple[str, int]], flat: bool) -> None:
        super().__init__()
        self.steps, self.flat = steps, flat
        self.parts = nn.ModuleDict()
        for number, (kind, _) in enumerate(steps):
            if (part := _part(kind)) is not None:
                self.parts[f"step{number}"] = part
        self.head: nn.Module = nn.LazyLinear(3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        values = [images]
        for number, (kind, back) in enumerate(self.steps):
            part = dict(self.parts.items()).get(f"step{number}")
            earlier = values[max(0, len(values) - 1 - back)]
            values.append(_computed(kind, part, values[-1], earlier))
        maps = values[-1]
        return self.head(maps.flatten(1) if self.flat else maps.mean((2, 3)))


def _part(kind: str) -> nn.Module | None:
    if kind in ("conv", "strided"):
        stride = 2 if kind == "strided" else 1
        return nn.Conv2d(CHANNELS, CHANNELS, 3, stride, padding=1, bias=kind == "conv")
    if kind == "depthwise":
        return nn.Conv2d(CHANNELS, CHANNELS, (3, 1), padding="same", groups=CHANNELS)
    parts: dict[str, nn.Module] = {
        "norm": nn.BatchNorm2d(CHANNELS),
        "lrn": nn.LocalResponseNorm(3, alpha=0.1),
        "prelu": nn.PReLU(CHANNELS),
        "shared": nn.PReLU(),
        "relu_": nn.ReLU(inplace=True),
        "max": nn.MaxPool2d(2, 1, 1),
        "cat": nn.Conv2d(2 * CHANNELS, CHANNELS, 1),
        "excited": nn.Conv2d(CHANNELS, CHANNELS, 1),
        "identity": nn.Identity(),
        "shuffled": nn.ChannelShuffle(2),
        "norm last": nn.LayerNorm(CHANNELS),
        "gamma": Gamma(),
        "dense last": nn.Linear(CHANNELS, CHANNELS),
    }
    return parts.get(kind)


def _computed(kind: str, part: Any, newest: torch.Tensor, earlier: torch.Tensor) -> torch.Tensor:
    fits = earlier is not newest and earlier.shape[1:] == newest.shape[1:]
    if kind == "sum":
        return newest + earlier if fits else newest
    if kind == "sum_":
        maps = F.avg_pool2d(newest, 1)  # whose result its gradient does not need
        maps += earlier if fits else torch.relu(newest)
        return maps
    if kind == "cat":
        both = [newest, earlier if fits else F.leaky_relu(newest, 0.3)]
        return part(torch.cat(both, 1))
    if kind == "excited":
        return newest * torch.sigmoid(part(newest.mean((2, 3), keepdim=True)))
    if kind == "relu_":
        return part(F.relu6(newest))
    if kind == "parts":
        first, second = newest.chunk(2, 1)
        return torch.cat([first, earlier[:, 1:3] if fits else second], 1)
    if kind == "slices":
        return torch.cat([newest[:, 1:], newest[:, :1].relu()], 1)
    if kind in ("norm last", "dense last"):
        return part(newest.permute(0, 2, 3, 1)).movedim(-1, 1)
    functions = {
        "relu": torch.relu,
        "leaky": lambda maps: F.leaky_relu(maps, 0.2),
        "relu6": F.relu6,
        "padded": lambda maps: F.avg_pool2d(F.pad(maps, (1, 0, 0, 1)), 2, 1),
        "padded maximum": lambda maps: F.max_pool2d(F.pad(maps, (0, 1, 1, 0), value=LOWEST), 2, 1),
        "mean": lambda maps: F.avg_pool2d(maps, 3, 1, 1),
        "dropout": lambda maps: F.dropout(maps, 0.0),
        "double": lambda maps: maps + maps,
        "scaled": lambda maps: maps * 0.5 - 1,
        "reversed": lambda maps: 1 - maps / 2,
        "silu": F.silu,
        "gelu": F.gelu,
        "tanh": torch.tanh,
        "hardswish": F.hardswish,
        "sigmoid": torch.sigmoid,
        "hardsigmoid": F.hardsigmoid,
    }
    return functions[kind](newest) if kind in functions else part(newest)


@pytest.mark.slow
@settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 4)), min_size=1, max_size=9),
    st.booleans(),
)
def test_random_modules_compute_the_same(steps: list[tuple[str, int]], flat: bool) -> None:
    module = Program(steps, flat)
    images = images_of(CHANNELS)
    module.eval()(images)  # gives the head its size
    imported_of(module, images)
