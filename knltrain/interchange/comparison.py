"""Compares a network with the PyTorch module that it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import nn
from torch.utils import _pytree as pytree

from knltrain.errors import NetworkError
from knltrain.interchange.exported_graph import last_line
from knltrain.interchange.to_torch import NetworkModule, to_torch
from knltrain.interchange.torch_terms import TORCH_NAMES
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

TOLERANCE = 1e-4
"""Of the largest output: how much an imported network's outputs may differ from its module's."""
GRADIENT_TOLERANCE = 1e-3
"""The same of the largest gradient of a parameter."""
_LEAST = 1e-7
"""Gradients that are zero may come out as this."""

_Result = TypeVar("_Result")


def check_same(
    module: nn.Module,
    network: Network,
    parameters: ParameterVector,
    keys: Mapping[str, str],
    example: torch.Tensor,
) -> None:
    """Compare evaluation and its gradients with the module's own: NetworkError if they differ.

    What differs in float32 is looked at again in float64: rounding grows over hundreds of layers,
    and a value may be on the other side of a rectifier's corner.
    """
    other = to_torch(network, parameters).eval()
    if _difference_of(module.eval(), other, keys, example) is None:
        return
    for each in (module, other):
        each.double().zero_grad()
    differing = _difference_of(module, other, keys, example.double())
    if differing is not None:
        largest, difference = _difference(differing.found, differing.expected)
        raise NetworkError(
            f"{network.name}: the network's {differing.what} differ from the module's by "
            f"{difference:.3g} of {largest:.3g} in evaluation: expected finite values, gradients "
            "that are those of the forward, and a forward that computes the same in training and "
            "evaluation, but for dropout, batch normalisation and auxiliary outputs"
        )


def _difference_of(
    module: nn.Module, other: NetworkModule, keys: Mapping[str, str], images: torch.Tensor
) -> _Pair | None:
    """The first values that differ: the outputs, or the gradients of a parameter."""
    name = other.network.name
    expected = _evaluated(name, partial(_first_output, module, images.clone()))
    found = other(images.clone())
    if not isinstance(expected, torch.Tensor) or expected.shape != found.shape:
        shape = tuple(expected.shape) if isinstance(expected, torch.Tensor) else expected
        raise NetworkError(
            f"{name} returns {shape} in evaluation of {len(images)} images: expected "
            f"logits {tuple(found.shape)}, as in training"
        )
    if not _is_near(found, expected, TOLERANCE):
        return _Pair("outputs", found, expected)
    return _differing_gradients(module, other, keys, found, expected)


def _first_output(module: nn.Module, images: torch.Tensor) -> Any:
    return next(iter(pytree.tree_leaves(module(images))), None)


def _evaluated(name: str, work: Callable[[], _Result]) -> _Result:
    """What `work` returns; NetworkError for what the module or PyTorch raises in it."""
    try:
        return work()
    except Exception as error:
        raise NetworkError(
            f"{name} cannot be evaluated: {error}{last_line(error)}; expected a forward that works "
            "in float32 and float64, and has a gradient"
        ) from error


class _Pair(NamedTuple):
    """Values by the network and by the module."""

    what: str
    found: torch.Tensor
    expected: torch.Tensor


def _differing_gradients(
    module: nn.Module,
    other: NetworkModule,
    keys: Mapping[str, str],
    found: torch.Tensor,
    expected: torch.Tensor,
) -> _Pair | None:
    """The first gradients that differ, of a weighted sum of the outputs."""
    for values in (found, expected):
        if values.requires_grad:
            weights = torch.linspace(-1, 1, values.numel(), dtype=values.dtype, device="cpu")
            total = (values * weights.reshape(values.shape)).sum()
            _evaluated(other.network.name, partial(torch.autograd.backward, total))
    tensors = dict(module.named_parameters(remove_duplicate=False))
    for spec in other.network.parameters:
        if spec.is_statistic:
            continue
        own = cast("nn.Module", other._modules[spec.layer])
        gradient = getattr(own, TORCH_NAMES[spec.role]).grad
        if gradient is None:  # of auxiliary outputs
            continue
        theirs = tensors[keys[spec.name]].grad
        theirs = torch.zeros_like(gradient) if theirs is None else theirs.reshape(gradient.shape)
        if not _is_near(gradient, theirs, GRADIENT_TOLERANCE):
            return _Pair(f"gradients of '{keys[spec.name]}'", gradient, theirs)
    return None


def _is_near(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    largest, difference = _difference(found, expected)
    return difference <= tolerance * largest + _LEAST


def _difference(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """The largest value that is expected, and the largest difference."""
    largest = float(expected.detach().abs().max())
    return largest, float((found - expected).detach().abs().max())
