"""Random modules: convolutional networks as people write them, in all forms that PyTorch has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812

CHANNELS: Final = 4

MODULES: Final[dict[str, Callable[[], nn.Module]]] = {
    "relu": nn.ReLU,
    "relu_": lambda: nn.ReLU(inplace=True),
    "relu6": nn.ReLU6,
    "leaky": lambda: nn.LeakyReLU(0.2),
    "leaky_": lambda: nn.LeakyReLU(0.1, inplace=True),
    "hardtanh": lambda: nn.Hardtanh(0.0, 2.0),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "silu_": lambda: nn.SiLU(inplace=True),
    "gelu": nn.GELU,
    "gelu tanh": lambda: nn.GELU(approximate="tanh"),
    "hardsigmoid": nn.Hardsigmoid,
    "hardswish": nn.Hardswish,
    "hardswish_": lambda: nn.Hardswish(inplace=True),
}
"""Activations as modules."""

FUNCTIONS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "relu": torch.relu,
    "relu_": F.relu_,
    "relu method": lambda x: x.relu(),
    "relu6": F.relu6,
    "leaky": F.leaky_relu,
    "sigmoid": lambda x: x.sigmoid(),
    "tanh_": lambda x: x.tanh_(),
    "silu": F.silu,
    "gelu": F.gelu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "swish by hand": lambda x: x * 1.5 - 0.5,
    "halved": lambda x: x / 2,
    "reversed": lambda x: 1 - x,
    "negative": lambda x: -x,
    "doubled": lambda x: x + x,
    "dropout": lambda x: F.dropout(x, 0.0),
    "contiguous": lambda x: x.contiguous(),
    "max": lambda x: F.max_pool2d(x, 3, 1, 1),
    "mean": lambda x: F.avg_pool2d(x, 3, 1, 1, False, False),
    "two branches of one value": lambda x: F.silu(x) + torch.sigmoid(x),
}
"""What a forward does itself; none changes the shape."""


@dataclass(frozen=True)
class Step:
    """A part of a network: its `kind`, its numbers and those inside it."""

    kind: str
    numbers: tuple[Any, ...] = ()
    inside: tuple[tuple[Step, ...], ...] = ()


class Residual(nn.Module):
    """x + inner(x), or the sum in place."""

    def __init__(self, inner: nn.Module, in_place: bool) -> None:
        super().__init__()
        self.inner, self.in_place = inner, in_place

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.inner(x)
        if self.in_place:
            out += x
            return out
        return x + out


class Branches(nn.Module):
    """Branches behind each other, channel by channel."""

    def __init__(self, branches: list[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Excitation(nn.Module):
    """Squeeze and excitation, by 1x1 convolutions or by dense layers."""

    def __init__(self, channels: int, dense: bool, gate: str) -> None:
        super().__init__()
        self.dense, self.gate = dense, FUNCTIONS[gate]
        self.reduce = nn.Linear(channels, 2) if dense else nn.Conv2d(channels, 2, 1)
        self.expand = nn.Linear(2, channels) if dense else nn.Conv2d(2, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = x.mean((2, 3), keepdim=not self.dense)
        factors = self.gate(self.expand(F.relu(self.reduce(means))))
        return x * (factors[:, :, None, None] if self.dense else factors)


class Function(nn.Module):
    """A function of FUNCTIONS, of its own copy where it changes it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FUNCTIONS[self.name](x.clone() if self.name.endswith("_") else x)


class Twice(nn.Module):
    """One module without parameters at two places."""

    def __init__(self, shared: nn.Module, channels: int) -> None:
        super().__init__()
        self.shared, self.conv = shared, nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shared(self.conv(self.shared(x.clone())))


class Whole(nn.Module):
    """The body and a head, with an auxiliary head in training, or none."""

    def __init__(self, body: nn.Module, head: str, auxiliary: bool) -> None:
        super().__init__()
        self.body, self.head, self.drop_rate = body, head, 0.3
        self.fc: nn.Module = nn.LazyLinear(3)
        self.side: nn.Module | None = nn.LazyLinear(3) if auxiliary else None

    def forward(self, images: torch.Tensor) -> Any:
        maps = self.body(images)
        if self.head == "flatten":
            vectors = maps.flatten(1)
        elif self.head == "view":
            vectors = maps.contiguous().view(maps.size(0), -1)
        elif self.head == "adaptive":
            vectors = F.adaptive_avg_pool2d(maps, 1).squeeze(-1).squeeze(-1)
        elif self.head == "adaptive 3":
            vectors = torch.flatten(F.adaptive_avg_pool2d(maps, (3, 2)), 1)
        else:
            vectors = maps.mean([2, 3])
        logits = self.fc(F.dropout(vectors, self.drop_rate, self.training))
        if self.training and self.side is not None:
            return logits, self.side(F.relu(maps).mean((-2, -1)))
        return logits


def built(steps: tuple[Step, ...], channels: int) -> tuple[nn.Module, int]:
    """The steps one after the other, and the channels that come out."""
    parts: list[nn.Module] = []
    for step in steps:
        part, channels = _part(step, channels)
        parts.append(part)
    return nn.Sequential(*parts), channels


def _part(step: Step, channels: int) -> tuple[nn.Module, int]:
    made = [built(inside, channels) for inside in step.inside]
    if step.kind == "convolution":
        filters, kernel, stride, padding, dilation, groups, bias, norm = step.numbers
        groups = {"one": 1, "all": channels, "two": 2 - channels % 2}[groups]
        filters = channels * (1 + filters % 2) if groups > 1 else filters
        own: list[nn.Module] = [
            nn.Conv2d(channels, filters, kernel, stride, padding, dilation, groups, bias)
        ]
        if norm:
            own.append(nn.BatchNorm2d(filters, eps=1e-3, momentum=0.2))
        return nn.Sequential(*own), filters
    if step.kind == "residual":
        ((inner, width),) = made
        back = [] if width == channels else [nn.Conv2d(width, channels, 1, bias=False)]
        return Residual(nn.Sequential(inner, *back, nn.BatchNorm2d(channels)), *step.numbers), (
            channels
        )
    if step.kind == "branches":
        return Branches([branch for branch, _ in made]), sum(width for _, width in made)
    one: dict[str, Callable[..., nn.Module]] = {
        "activation": lambda name: MODULES[name](),
        "dropout": nn.Dropout,
        "excitation": lambda dense, gate: Excitation(channels, dense, gate),
        "function": Function,
        "identity": nn.Identity,
        "lrn": lambda size: nn.LocalResponseNorm(size, alpha=0.1),
        "max": lambda *numbers: nn.MaxPool2d(*numbers[:3], ceil_mode=numbers[3]),
        "mean": nn.AvgPool2d,
        "norm": lambda: nn.BatchNorm2d(channels),
        "twice": lambda name: Twice(MODULES[name](), channels),
    }
    return one[step.kind](*step.numbers), channels


_KERNELS = st.tuples(st.integers(1, 3), st.integers(1, 3))
_ODD = st.sampled_from([1, 3, (1, 3), (3, 1), 5])
_BIAS = st.booleans()
_GROUPS = st.sampled_from(["one", "one", "two", "all"])


def _kept(kind: str, *numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(lambda found: Step(kind, found), st.tuples(*numbers))


KEEPING: Final = st.one_of(
    _kept("activation", st.sampled_from(sorted(MODULES))),
    _kept("function", st.sampled_from(sorted(FUNCTIONS))),
    _kept("twice", st.sampled_from(sorted(MODULES))),
    _kept("excitation", _BIAS, st.sampled_from(["sigmoid", "hardsigmoid", "relu6"])),
    _kept("lrn", st.sampled_from([1, 3, 5])),
    _kept("norm"),
    _kept("identity"),
    _kept("dropout", st.sampled_from([0.0, 0.4])),
    _kept(
        "convolution",
        *(st.integers(1, 5), _ODD, st.just(1), st.just("same")),
        *(st.integers(1, 2), _GROUPS, _BIAS, _BIAS),
    ),
)
"""Steps that keep height and width."""

CHANGING: Final = st.one_of(
    _kept(
        "convolution",
        *(st.integers(1, 5), _KERNELS, st.integers(1, 2), st.integers(0, 2)),
        *(st.integers(1, 2), _GROUPS, _BIAS, _BIAS),
    ),
    _kept("max", st.integers(2, 3), st.integers(1, 2), st.integers(0, 1), _BIAS),
    _kept("mean", st.integers(2, 3), st.integers(1, 2), st.integers(0, 1), _BIAS, _BIAS),
)
"""Steps that may change them."""


def _nested(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(lambda steps, own: Step("residual", (own,), (steps,)), some, _BIAS),
        st.builds(
            lambda all_steps: Step("branches", (), tuple(all_steps)),
            st.lists(some, min_size=2, max_size=3),
        ),
    )


STEPS: Final = st.lists(
    st.one_of(KEEPING, CHANGING, st.recursive(KEEPING, _nested, max_leaves=5)),
    min_size=1,
    max_size=6,
).map(tuple)
HEADS: Final = st.sampled_from(["flatten", "view", "adaptive", "adaptive 3", "mean"])
