"""Modules with a forward of their own, and their import compared with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from knltrain.interchange.from_torch import ImportedNetwork, from_torch
from knltrain.interchange.to_torch import NetworkModule, to_torch

OUTPUT_TOLERANCE: Final = 1e-4
"""Of the largest output."""
GRADIENT_TOLERANCE: Final = 1e-3
"""Of a parameter's largest gradient."""

CHANCES: Final = ("p", "drop_prob", "drop_rate", "rate")


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


def drop_nothing(module: nn.Module) -> nn.Module:
    """Set the rates of dropout and stochastic depth to zero."""
    for part, key in chances(module):
        setattr(part, key, 0.0)
    return module


def chances(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """The modules and attributes that are a share of values or images to drop."""
    for part in module.modules():
        for key in CHANCES:
            if isinstance(getattr(part, key, None), float):
                yield part, key


def differences(
    module: nn.Module, imported: ImportedNetwork, images: torch.Tensor
) -> tuple[float, float, float]:
    """Of outputs in evaluation and in training, and of gradients: shares of the largest."""
    other = to_torch(imported.network, imported.parameters)
    drop_nothing(module), drop_nothing(other)
    before = [(values, values.clone()) for each in (module, other) for values in each.buffers()]
    found = _compared(module, other, imported, images)
    if not _are_small(found):
        # In float32 rounding grows, and a value may be on the other side of a rectifier's corner.
        for values, old in before:
            values.copy_(old)
        for each in (module, other):
            each.double().zero_grad()
        found = _compared(module, other, imported, images.double())
    assert _are_small(found), found
    return found


def _are_small(differences: tuple[float, float, float]) -> bool:
    evaluated, trained, gradients = differences
    return max(evaluated, trained) <= OUTPUT_TOLERANCE and gradients <= GRADIENT_TOLERANCE


def _compared(
    module: nn.Module, other: NetworkModule, imported: ImportedNetwork, images: torch.Tensor
) -> tuple[float, float, float]:
    with torch.no_grad():
        evaluated = _share(other.eval()(images.clone()), module.eval()(images.clone()))
    return evaluated, *_trained(module, other, imported, images)


def _trained(
    module: nn.Module, other: NetworkModule, imported: ImportedNetwork, images: torch.Tensor
) -> tuple[float, float]:
    """Differences of outputs in training, of running statistics, and of gradients."""
    expected = pytree.tree_leaves(module.train()(images.clone()))
    found = other.train().logits(images.clone(), imported.network.outputs)
    for outputs in (expected, found):
        total = torch.zeros((), dtype=images.dtype)
        for output, each in zip(outputs, imported.network.outputs, strict=True):
            slopes = torch.linspace(-1, 1, output.numel(), dtype=images.dtype)
            total = total + each.weight * (output * slopes.reshape(output.shape)).sum()
        total.backward()
    outputs_differ = max(map(_share, found, expected))
    theirs = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    ours = {**dict(other.named_parameters()), **dict(other.named_buffers())}
    gradients_differ = 0.0
    for name, key in imported.keys.items():
        role = name.rpartition(".")[2]
        if role.startswith("running_"):
            own = ours[name.replace("running_variance", "running_var")]
            outputs_differ = max(outputs_differ, _share(own, theirs[key]))
            continue
        (own,) = (values for each, values in ours.items() if is_of(each, name))
        assert own.grad is not None
        assert theirs[key].grad is not None, key
        share = _share(own.grad, theirs[key].grad.reshape(own.grad.shape))
        gradients_differ = max(gradients_differ, share)
    return outputs_differ, gradients_differ


def _share(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, of the largest value that is expected.

    What is below is the rounding of a zero, as the gradient of a shift before a normalisation.
    """
    assert torch.isfinite(expected).all()
    difference = (found - expected).detach().abs().max()
    return float(difference / expected.detach().abs().max().clamp(min=1e-4))
