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
    """Compare evaluation and its gradients with the module's own: NetworkError if they differ."""
    other = to_torch(network, parameters).eval()
    expected = _evaluated(network.name, partial(_first_output, module.eval(), example.clone()))
    found = other(example.clone())
    if not isinstance(expected, torch.Tensor) or expected.shape != found.shape:
        shape = tuple(expected.shape) if isinstance(expected, torch.Tensor) else expected
        raise NetworkError(
            f"{network.name} returns {shape} in evaluation of {len(example)} images: expected "
            f"logits {tuple(found.shape)}, as in training"
        )
    _check_near(network.name, "outputs", found, expected, TOLERANCE)
    differing = _differing_gradients(module, other, keys, found, expected)
    if differing is None:
        return
    # In float32 a value may be on the other side of a rectifier's corner.
    pair = module.double(), other.double()
    for each in pair:
        each.zero_grad()
    expected = _evaluated(network.name, partial(_first_output, module, example.double()))
    found = other(example.double())
    differing = _differing_gradients(module, other, keys, found, expected)
    if differing is not None:
        _check_near(network.name, f"gradients of '{differing.key}'", *differing[1:])


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


class _Gradients(NamedTuple):
    """The gradients of a parameter by the network and by the module, and the tolerance."""

    key: str
    found: torch.Tensor
    expected: torch.Tensor
    tolerance: float = GRADIENT_TOLERANCE


def _differing_gradients(
    module: nn.Module,
    other: NetworkModule,
    keys: Mapping[str, str],
    found: torch.Tensor,
    expected: torch.Tensor,
) -> _Gradients | None:
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
            return _Gradients(keys[spec.name], gradient, theirs)
    return None


def _is_near(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    largest, difference = _difference(found, expected)
    return difference <= tolerance * largest + _LEAST


def _difference(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """The largest value that is expected, and the largest difference."""
    largest = float(expected.detach().abs().max())
    return largest, float((found - expected).detach().abs().max())


def _check_near(
    name: str, what: str, found: torch.Tensor, expected: torch.Tensor, tolerance: float
) -> None:
    if not _is_near(found, expected, tolerance):
        largest, difference = _difference(found, expected)
        raise NetworkError(
            f"{name}: the network's {what} differ from the module's by {difference:.3g} "
            f"of {largest:.3g} in evaluation: expected finite values, gradients that are those of "
            "the forward, and a forward that computes the same in training and evaluation, but "
            "for dropout, batch normalisation and auxiliary outputs"
        )
