"""Converts PyTorch modules to networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms import TORCH_NAMES
from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    Pair,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from vectorized_ops.torch._alterations import stays_whole


def from_torch(
    module: nn.Sequential, input_shape: tuple[int, int, int], name: str = "imported"
) -> tuple[Network, ParameterVector]:
    """A network for images (H,W,C) and a copy of its parameters from a chain of modules.

    Supports a plain nn.Sequential of the modules in LAYERS and Flatten, with trained float32
    values; NetworkError names any unsupported module, setting or tensor. Forward methods are not
    analysed, so no module may have one of its own.
    """
    _check_chain(module)
    children = [(key, child) for key, child in module._modules.items() if child is not None]
    _check_shared(children)
    layers = tuple(
        _layer(child_name, child)
        for child_name, child in children
        if _plain(child_name, child) is not nn.Flatten
    )
    _check_flattening(children)
    network = Network(name, input_shape, layers)
    parameters = ParameterVector(network)
    for spec in network.parameters:
        values = _values(spec.layer, module._modules[spec.layer], TORCH_NAMES[spec.role])
        if values.shape != spec.shape:
            raise NetworkError(
                f"{spec.name}: images of shape {input_shape} need {spec.shape}, but the module "
                f"has {values.shape}: give the (height, width, channels) that it was built for"
            )
        parameters.views[spec.name][...] = values
    return network, parameters


def _values(name: str, module: nn.Module | None, key: str) -> np.ndarray:
    """Return a tensor of a module as an array; NetworkError for an unsupported one."""
    tensor: object = getattr(module, key, None)
    whose = f"module '{name}': {key}"
    if not isinstance(tensor, torch.Tensor):
        raise NetworkError(f"{whose} is {tensor!r}: expected a tensor, as the module was made with")
    if tensor.is_meta:
        raise NetworkError(
            f"{whose} is on the device meta, without values: expected values; "
            "module.to_empty(device='cpu') makes room for them, load_state_dict fills it"
        )
    if tensor.dtype != torch.float32 or tensor.layout != torch.strided:
        raise NetworkError(
            f"{whose} is {tensor.dtype}, {tensor.layout}: expected torch.float32, torch.strided, "
            "a network trains in nothing else; module.float() makes it so of other real numbers"
        )
    if isinstance(tensor, nn.Parameter) and not tensor.requires_grad:
        raise NetworkError(
            f"{whose} is frozen (requires_grad = False): expected parameters that are trained, a "
            "network trains all; module.requires_grad_() lets PyTorch do so, too"
        )
    return tensor.detach().cpu().numpy()


def _check_chain(module: nn.Module) -> None:
    if type(module) is nn.Sequential and not stays_whole(module):
        return
    kind = type(module).__name__
    more = " with hooks or a forward of its own" if type(module) is nn.Sequential else ""
    raise NetworkError(
        f"a network was to be made of {kind}{more}, whose forward pass cannot be read: expected a "
        "plain nn.Sequential; write its layers, functions such as torch.relu as modules (nn.ReLU), "
        "in their order into nn.Sequential(...). What `optimize` changed is plain again after "
        "vectorized_ops.torch.plain(model)"
    )


def _plain(name: str, module: nn.Module) -> type[nn.Module]:
    """Return a module's class, if the class alone determines what it computes."""
    if stays_whole(module):
        raise NetworkError(
            f"module '{name}': {type(module).__name__} with hooks or a forward of its own is not "
            "supported: expected a module that does what its class does; remove them first"
        )
    return type(module)


def _check_shared(children: list[tuple[str, nn.Module]]) -> None:
    """Raise NetworkError for shared parameters: a network would have two copies."""
    first: dict[int, str] = {}
    for name, child in children:
        for parameter in child.parameters():
            before = first.setdefault(id(parameter), name)
            if before != name:
                raise NetworkError(
                    f"module '{name}': {type(child).__name__} has the parameters of '{before}': "
                    "expected parameters of its own, a network does not share them"
                )


def _layer(name: str, module: nn.Module) -> Layer:
    for kind, described in LAYERS.items():  # classes of programs may have no hash
        if kind is type(module):
            return described(name, module)
    known = ", ".join(kind.__name__ for kind in LAYERS)
    raise NetworkError(
        f"module '{name}': {type(module).__name__} is not supported: expected {known} or Flatten "
        "themselves, no classes made of them"
    )


def _convolution(name: str, module: nn.Conv2d) -> Layer:
    _check_settings(name, module, padding_mode="zeros")
    return Convolution(
        name,
        module.out_channels,
        _extent(name, module, "kernel_size"),
        _extent(name, module, "stride"),
        _extent(name, module, "padding"),
        _extent(name, module, "dilation"),
        module.groups,
        cast("nn.Parameter | None", module.bias) is not None,
    )


def _dense(name: str, module: nn.Linear) -> Layer:
    return Dense(name, module.out_features, cast("nn.Parameter | None", module.bias) is not None)


def _max_pooling(name: str, module: nn.MaxPool2d) -> Layer:
    _check_settings(name, module, dilation=1, return_indices=False)
    return MaxPooling(
        name,
        _extent(name, module, "kernel_size"),
        _extent(name, module, "stride"),
        _extent(name, module, "padding"),
        module.ceil_mode,
    )


def _average_pooling(name: str, module: nn.AvgPool2d) -> Layer:
    padding = _extent(name, module, "padding")
    _check_settings(name, module, divisor_override=None)
    if padding != (0, 0):
        _check_settings(name, module, count_include_pad=True)
    return AveragePooling(
        name,
        _extent(name, module, "kernel_size"),
        _extent(name, module, "stride"),
        padding,
        module.ceil_mode,
    )


def _global_pooling(name: str, module: nn.AdaptiveAvgPool2d) -> Layer:
    _check_settings(name, module, output_size=1)
    return GlobalAveragePooling(name)


def _normalisation(name: str, module: nn.BatchNorm2d) -> Layer:
    _check_settings(name, module, affine=True, track_running_stats=True)
    if module.momentum is None:
        raise NetworkError(f"module '{name}': momentum = None, expected a number such as 0.1")
    return BatchNormalisation(name, module.eps, module.momentum)


def _response_normalisation(name: str, module: nn.LocalResponseNorm) -> Layer:
    return LocalResponseNormalisation(name, module.size, module.alpha, module.beta, module.k)


def _dropout(name: str, module: nn.Dropout) -> Layer:
    return Dropout(name, module.p)


def _rectifier(name: str, module: nn.Module) -> Layer:
    if isinstance(module, nn.LeakyReLU):
        return ReLU(name, slope=module.negative_slope)
    return ReLU(name, ceiling=6.0 if isinstance(module, nn.ReLU6) else math.inf)


LAYERS: dict[type[nn.Module], Callable[[str, Any], Layer]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _dense,
    nn.MaxPool2d: _max_pooling,
    nn.AvgPool2d: _average_pooling,
    nn.AdaptiveAvgPool2d: _global_pooling,
    nn.BatchNorm2d: _normalisation,
    nn.LocalResponseNorm: _response_normalisation,
    nn.Dropout: _dropout,
    nn.ReLU: _rectifier,
    nn.LeakyReLU: _rectifier,
    nn.ReLU6: _rectifier,
}
"""Module -> how it is described."""


def _extent(name: str, module: nn.Module, key: str) -> Pair:
    value: object = getattr(module, key)
    sides = value if isinstance(value, tuple) else (value, value)
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise NetworkError(f"module '{name}': {key} = {value!r}, expected one whole number or two")
    return sides[0], sides[1]


def _check_settings(name: str, module: nn.Module, **expected: object) -> None:
    for key, value in expected.items():
        given = getattr(module, key)
        if given not in (value, (value, value)):
            raise NetworkError(f"module '{name}': {key} = {given}, only {value!r} is supported")


def _check_flattening(children: list[tuple[str, nn.Module]]) -> None:
    """Maps become vectors in one place: a Flatten before the first Linear or at the end.

    A network has no layer for it: its dense layers take maps, and global pooling makes vectors.
    """
    flat = vectors = False  # `flat` as PyTorch sees it, `vectors` as a network does.
    for name, child in children:
        fits_both = isinstance(child, nn.Dropout | nn.ReLU | nn.LeakyReLU | nn.ReLU6)
        if isinstance(child, nn.Flatten):
            _check_settings(name, child, start_dim=1, end_dim=-1)
        if not fits_both and isinstance(child, nn.Linear) != flat:
            raise NetworkError(
                f"module '{name}': expected a Flatten between feature maps and the first Linear, "
                "and nowhere else"
            )
        flat = flat or isinstance(child, nn.Flatten)
        vectors = vectors or isinstance(child, nn.Linear | nn.AdaptiveAvgPool2d)
    if flat != vectors:
        raise NetworkError(
            f"module '{children[-1][0]}' at the end: expected a Flatten behind global pooling, and "
            "none where neither it nor a Linear makes the maps vectors"
        )
