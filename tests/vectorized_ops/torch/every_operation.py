"""Every public operation and the same by PyTorch: a new one that is not here fails the tests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from vectorized_ops import torch as ours

NO_OPERATIONS = {"Fusion", "OptimizationWarning", "fusion_of", "keep_memory", "plain"}
CHANNELS = 6


class Calls(nn.Module):
    """A function of images and of parameters of these sizes."""

    def __init__(self, function: Callable[..., Tensor], *sizes: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.function = function
        self.given = nn.ParameterList(nn.Parameter(torch.randn(size)) for size in sizes)

    def forward(self, images: Tensor) -> Tensor:
        return self.function(images, *self.given)


class Behind(nn.Module):
    """Modules behind each other that share what they are given."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, images: Tensor) -> Tensor:
        first, *others = self.layers
        out = first(images, images) if isinstance(first, ours.BatchNormAddReLU2d) else first(images)
        for layer in others:
            out = layer(out)
        return out


class AddReLU(nn.BatchNorm2d):
    def forward(self, images: Tensor) -> Tensor:
        return f.relu(super().forward(images) + images)


class Branches(nn.Module):
    """All that `optimize` puts together: branches, a residual addition, several takers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.norm = nn.Conv2d(CHANNELS, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.branches = nn.ModuleList(nn.Conv2d(8, 4, 1) for _ in range(3))
        self.second, self.last = nn.BatchNorm2d(12), nn.Conv2d(12, 12, 1)
        self.response, self.dense = nn.LocalResponseNorm(5, 0.5), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.cat([torch.relu(branch(x)) for branch in self.branches], 1)
        x = torch.relu(self.second(self.last(x)) + x)
        x = f.max_pool2d(self.response(torch.relu(self.last(x))), 2)
        return self.dense(torch.flatten(f.adaptive_avg_pool2d(f.avg_pool2d(x, 2), 1), 1))


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(4)
    return make()


def _function(name: str, theirs: Callable[..., Tensor], *sizes: Any, **options: Any) -> Any:
    mine = getattr(ours, name)
    return (
        lambda: Calls(lambda x, *given: mine(x, *given, **options), *sizes),
        lambda: Calls(lambda x, *given: theirs(x, *given, **options), *sizes),
    )


def _normalised(norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, weight, bias: norm(x, None, None, weight, bias, True)


def _module(name: str, theirs: Callable[..., nn.Module], *given: Any, **options: Any) -> Any:
    mine = getattr(ours, name)
    return lambda: Behind(mine(*given, **options)), lambda: Behind(theirs(*given, **options))


C = CHANNELS
PAIRS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "relu": _function("relu", f.relu),
    "max_pool2d": _function(
        "max_pool2d", f.max_pool2d, kernel_size=3, stride=2, padding=1, ceil_mode=True
    ),
    "avg_pool2d": _function("avg_pool2d", f.avg_pool2d, kernel_size=3, stride=2, padding=1),
    "adaptive_avg_pool2d": _function(
        "adaptive_avg_pool2d", f.adaptive_avg_pool2d, output_size=1
    ),
    "local_response_norm": _function("local_response_norm", f.local_response_norm, size=3),
    "conv2d_relu": _function(
        "conv2d_relu", lambda *given, **options: f.relu(f.conv2d(*given, **options)),
        (4, C, 3, 3), (4,), padding=1,
    ),
    "concatenate": (
        lambda: Calls(lambda x: ours.concatenate([x, 2 * x])),
        lambda: Calls(lambda x: torch.cat([x, 2 * x], 1)),
    ),
    "batch_norm": (
        lambda: Calls(_normalised(ours.batch_norm), (C,), (C,)),
        lambda: Calls(_normalised(f.batch_norm), (C,), (C,)),
    ),
    "ReLU": _module("ReLU", nn.ReLU),
    "MaxPool2d": _module("MaxPool2d", nn.MaxPool2d, 3, 2),
    "AvgPool2d": _module("AvgPool2d", nn.AvgPool2d, 3, 2),
    "AdaptiveAvgPool2d": _module("AdaptiveAvgPool2d", nn.AdaptiveAvgPool2d, 1),
    "LocalResponseNorm": _module("LocalResponseNorm", nn.LocalResponseNorm, 5, 0.5),
    "BatchNorm2d": _module("BatchNorm2d", nn.BatchNorm2d, C),
    "BatchNormReLU2d": (
        lambda: Behind(ours.BatchNormReLU2d(C)),
        lambda: Behind(nn.BatchNorm2d(C), nn.ReLU()),
    ),
    "BatchNormAddReLU2d": (
        lambda: Behind(ours.BatchNormAddReLU2d(C)),
        lambda: Behind(AddReLU(C)),
    ),
    "Conv2dReLU": (
        lambda: Behind(ours.Conv2dReLU(C, 4, 3)),
        lambda: Behind(nn.Conv2d(C, 4, 3), nn.ReLU()),
    ),
    "optimize": (lambda: ours.optimize(Branches(), keep_memory=False), Branches),
}  # fmt: skip
"""Ours and PyTorch's, by the public name."""


def pair_of(name: str) -> tuple[nn.Module, nn.Module]:
    """Both with the same parameters."""
    mine, theirs = map(_seeded, PAIRS[name])
    return mine, theirs


def images_of(seed: int = 0, number: int = 2) -> Tensor:
    generator = torch.Generator(device="cpu").manual_seed(seed)
    images = torch.randn(
        number, CHANNELS, 8, 8, generator=generator, dtype=torch.float32, device="cpu"
    )
    return images.contiguous(memory_format=torch.channels_last)


def computed(module: nn.Module, images: Tensor, training: bool = True) -> list[Tensor]:
    """All that a step leaves: output, gradients, and statistics; in the modes that hold."""
    module.train(training).zero_grad()
    images = images.detach().requires_grad_()
    out = module(images)
    slopes = torch.linspace(-1, 1, out.numel(), dtype=torch.float32, device="cpu")
    out.backward(slopes.view(out.shape).to(out.dtype))
    gradients = [p.grad for p in (images, *module.parameters()) if p.grad is not None]
    return [out.detach(), *gradients, *(copy.copy(buffer) for buffer in module.buffers())]
