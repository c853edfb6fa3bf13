"""Modules with a forward of their own, and their import compared with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from knltrain.interchange.from_torch import ImportedNetwork, from_torch
from knltrain.interchange.to_torch import to_torch


class Forward(nn.Module):
    """Submodules by name, and a forward pass of its own: a function of the module and images."""

    def __init__(self, work: Callable[[Any, torch.Tensor], Any], **children: nn.Module) -> None:
        super().__init__()
        self.work = work
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, images: torch.Tensor) -> Any:
        return self.work(self, images)


def images_of(channels: int = 2, size: int = 8) -> torch.Tensor:
    return torch.randn(3, channels, size, size, generator=torch.Generator().manual_seed(1))


def used(module: nn.Module) -> nn.Module:
    """With running statistics and scales that are not those of the beginning."""
    torch.manual_seed(0)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                for values in (part.weight, part.bias, part.running_mean, part.running_var):
                    assert values is not None
                    values.uniform_(0.5, 1.5)
    return module


def imported_of(module: nn.Module, images: torch.Tensor, *weights: float) -> ImportedNetwork:
    """The import, in which evaluation and the gradients of training are compared."""
    imported = from_torch(used(module), images, weights)
    other = to_torch(imported.network, imported.parameters)
    expected, found = module.eval()(images), other.eval()(images)
    np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-4, atol=1e-6)
    torch.autograd.backward([expected.square().sum(), found.square().sum()])
    gradients = dict(module.named_parameters())
    own = {name: each.grad for name, each in other.named_parameters()}
    for name, key in imported.keys.items():
        if (expected_gradient := gradients.get(key)) is None or expected_gradient.grad is None:
            continue
        (gradient,) = (each for each in own if is_of(each, name))
        expected_values = expected_gradient.grad.reshape(own[gradient].shape)
        torch.testing.assert_close(own[gradient], expected_values, rtol=1e-3, atol=1e-4)
    return imported


def is_of(key: str, name: str) -> bool:
    layer, _, role = name.rpartition(".")
    return key == f"{layer}.{'bias' if role in ('bias', 'shift') else 'weight'}"
