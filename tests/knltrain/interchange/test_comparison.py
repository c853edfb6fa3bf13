"""A network that does not compute what its module does is not returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.comparison import check_same
from knltrain.interchange.from_torch import from_torch
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

from .importing import Forward, images_of


def _of(work: Callable[[Any, torch.Tensor], Any]) -> nn.Module:
    return Forward(work, conv=nn.Conv2d(2, 2, 1))


class Reversed(torch.autograd.Function):
    """The gradient is not that of the forward pass."""

    @staticmethod
    def forward(ctx: Any, maps: torch.Tensor) -> torch.Tensor:
        return maps.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


def _hooked(own: Any, images: torch.Tensor) -> Any:
    maps = own.conv(images)
    if maps.requires_grad:
        maps.register_hook(lambda gradient: 2 * gradient)
    return maps


def _of_floats_alone(own: Any, images: torch.Tensor) -> Any:
    if images.dtype != torch.float32:
        raise TypeError("only floats")
    return Reversed.apply(own.conv(images))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_of(lambda own, images: Reversed.apply(own.conv(images))), "gradients of .conv.weight."),
        (_of(_hooked), "gradients of 'conv.weight' differ .*gradients that are those of the"),
        (_of(lambda own, images: own.conv(images) if own.training else images), "outputs differ"),
        (
            _of(lambda own, images: own.conv(images) if own.training else images[:, :1]),
            r"returns \(3, 1, 8, 8\) in evaluation of 3 images: expected logits \(3, 2, 8, 8\)",
        ),
        (_of(lambda own, images: own.conv(images) if own.training else own.no), "cannot be evalua"),
        (
            _of(lambda own, images: torch.sigmoid(own.conv(images)).relu_()),
            "cannot be evaluated: .* modified by an inplace operation.* and has a gradient",
        ),
        (_of(_of_floats_alone), "cannot be evaluated: only floats.*float32 and float64"),
    ],
)
def test_module_that_evaluates_otherwise_is_named(module: nn.Module, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        from_torch(module, images_of())


def _linear() -> tuple[nn.Module, Network, ParameterVector]:
    module = nn.Sequential(nn.Flatten(), nn.Linear(128, 3))
    network = Network("small", (8, 8, 2), (Dense("fc", 3),))
    parameters = ParameterVector(network)
    parameters.views["fc.weights"][...] = module[1].weight.detach()
    parameters.views["fc.bias"][...] = module[1].bias.detach()
    return module, network, parameters


def test_what_is_the_same_passes_and_a_thousandth_does_not() -> None:
    module, network, parameters = _linear()
    keys = {"fc.weights": "1.weight", "fc.bias": "1.bias"}
    check_same(module, network, parameters, keys, images_of())
    parameters.views["fc.bias"][0] += 0.01
    with pytest.raises(NetworkError, match="small: the network's outputs differ"):
        check_same(module, network, parameters, keys, images_of())


def test_values_that_are_not_finite_are_named() -> None:
    module, network, parameters = _linear()
    parameters.packed[0] = np.nan
    with pytest.raises(NetworkError, match=r"differ .* by nan of .*expected finite values"):
        check_same(module, network, parameters, {}, images_of())
