"""Compares a network with the PyTorch module that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import nn
from torch.utils import _pytree as pytree

from knltrain.errors import NetworkError
from knltrain.interchange.exported_graph import last_line
from knltrain.interchange.to_torch import to_torch
from knltrain.interchange.torch_terms import TORCH_NAMES
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

TOLERANCE = 1e-4
"""Of the largest output: how much an imported network's outputs may differ from its module's."""
GRADIENT_TOLERANCE = 1e-3
"""The same of the largest gradient of a parameter."""
_LEAST = 1e-7
"""Gradients that are zero may come out as this."""


def check_same(
    module: nn.Module,
    network: Network,
    parameters: ParameterVector,
    keys: Mapping[str, str],
    example: torch.Tensor,
) -> None:
    """Compare evaluation and its gradients with the module's own: NetworkError if they differ."""
    other = to_torch(network, parameters).eval()
    try:
        leaves = pytree.tree_leaves(module.eval()(example.clone()))
    except Exception as error:
        raise NetworkError(
            f"{network.name} cannot be evaluated: {error}{last_line(error)}"
        ) from error
    found, expected = other(example.clone()), next(iter(leaves), None)
    if not isinstance(expected, torch.Tensor) or expected.shape != found.shape:
        shape = tuple(expected.shape) if isinstance(expected, torch.Tensor) else expected
        raise NetworkError(
            f"{network.name} returns {shape} in evaluation of {len(example)} images: expected "
            f"logits {tuple(found.shape)}, as in training"
        )
    _check_near(network.name, "outputs", found, expected, TOLERANCE)
    for values in (found, expected):
        if values.requires_grad:
            weights = torch.linspace(
                -1, 1, values.numel(), dtype=torch.float32, device="cpu"
            ).reshape(values.shape)
            (values * weights).sum().backward()
    tensors = dict(module.named_parameters(remove_duplicate=False))
    for spec in network.parameters:
        if spec.is_statistic:
            continue
        own = cast("nn.Module", other._modules[spec.layer])
        gradient = getattr(own, TORCH_NAMES[spec.role]).grad
        theirs = tensors[keys[spec.name]].grad
        if gradient is None:  # of auxiliary outputs
            continue
        what = f"gradients of '{keys[spec.name]}'"
        theirs = torch.zeros_like(gradient) if theirs is None else theirs
        _check_near(network.name, what, gradient, theirs, GRADIENT_TOLERANCE)


def _check_near(
    name: str, what: str, found: torch.Tensor, expected: torch.Tensor, tolerance: float
) -> None:
    largest = float(expected.detach().abs().max())
    difference = float((found - expected).detach().abs().max())
    if not difference <= tolerance * largest + _LEAST:
        raise NetworkError(
            f"{name}: the network's {what} differ from the module's by {difference:.3g} "
            f"of {largest:.3g} in evaluation: expected finite values, gradients that are those of "
            "the forward, and a forward that computes the same in training and evaluation, but "
            "for dropout, batch normalisation and auxiliary outputs"
        )
