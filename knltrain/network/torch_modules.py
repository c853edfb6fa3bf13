"""Networks to PyTorch modules and back."""

from __future__ import annotations

from collections import OrderedDict
from typing import cast

import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.network.layers import Convolution, Dense, Layer, MaxPooling, ReLU, Shape
from knltrain.network.network import Network
from knltrain.network.parameters import FloatArray, ParameterVector

SUPPORTED = "Conv2d, MaxPool2d, Linear, ReLU and Flatten"
FLATTEN_SUFFIX = "_flatten"
"""Behind the name of a dense layer, that of the module which flattens its input."""


def to_torch(network: Network, parameters: ParameterVector) -> nn.Sequential:
    """The network as modules named like its layers, for input (N,C,H,W) float32.

    The modules' parameters are views on `parameters`: nothing is copied, and a change on either
    side is seen on the other.
    """
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    for layer, shape in zip(network.layers, network.shapes[:-1], strict=True):
        if isinstance(layer, Dense) and len(shape) == 3:
            modules[f"{layer.name}{FLATTEN_SUFFIX}"] = nn.Flatten()
        modules[layer.name] = _module(layer, shape, parameters.views)
    return nn.Sequential(modules)


def from_torch(
    module: nn.Sequential, input_shape: tuple[int, int, int], name: str = "imported"
) -> tuple[Network, ParameterVector]:
    """A network for images (H,W,C) and a copy of its parameters from a chain of modules.

    Understands square Conv2d, MaxPool2d, Linear, ReLU and Flatten, Conv2d and Linear with a
    bias; NetworkError names any module or setting beyond these.
    """
    children = list(module.named_children())
    layers = tuple(
        _layer(child_name, child)
        for child_name, child in children
        if not isinstance(child, nn.Flatten)
    )
    network = Network(name, input_shape, layers)
    _check_flattening(children, network)
    parameters = ParameterVector(network)
    state = module.state_dict()
    for key, view in parameters.views.items():
        values = state[key.replace(".weights", ".weight")].cpu().numpy()
        if values.shape != view.shape:
            raise NetworkError(
                f"{key}: images of shape {input_shape} need {view.shape}, but the module has "
                f"{values.shape}: give the (height, width, channels) that it was built for"
            )
        view[...] = values
    return network, parameters


def _module(layer: Layer, input_shape: Shape, views: dict[str, FloatArray]) -> nn.Module:
    if isinstance(layer, MaxPooling):
        return nn.MaxPool2d(layer.kernel, layer.stride)
    if isinstance(layer, ReLU):
        return nn.ReLU()
    module: nn.Conv2d | nn.Linear
    # The meta device allocates nothing: the views below become the parameters.
    if isinstance(layer, Convolution):
        module = nn.Conv2d(
            input_shape[2], layer.filters, layer.kernel, layer.stride, layer.padding, device="meta"
        )
    elif isinstance(layer, Dense):
        module = nn.Linear(views[f"{layer.name}.weights"].shape[1], layer.units, device="meta")
    else:
        raise NetworkError(f"layer '{layer.name}': {type(layer).__name__} has no PyTorch module")
    module.weight = nn.Parameter(torch.from_numpy(views[f"{layer.name}.weights"]))
    module.bias = nn.Parameter(torch.from_numpy(views[f"{layer.name}.bias"]))
    return module


def _layer(name: str, module: nn.Module) -> Layer:
    if isinstance(module, nn.ReLU):
        return ReLU(name)
    if isinstance(module, nn.MaxPool2d):
        _check_settings(name, module, padding=0, dilation=1, ceil_mode=False, return_indices=False)
        kernel = _square(name, "kernel_size", module.kernel_size)
        return MaxPooling(name, kernel, _square(name, "stride", module.stride))
    if isinstance(module, nn.Linear):
        _check_bias(name, module)
        return Dense(name, module.out_features)
    if isinstance(module, nn.Conv2d):
        return _convolution(name, module)
    raise NetworkError(
        f"module '{name}': {type(module).__name__} is not supported: expected {SUPPORTED}"
    )


def _convolution(name: str, module: nn.Conv2d) -> Convolution:
    _check_bias(name, module)
    _check_settings(name, module, groups=1, dilation=1, padding_mode="zeros")
    return Convolution(
        name,
        module.out_channels,
        _square(name, "kernel_size", module.kernel_size),
        _square(name, "stride", module.stride),
        _square(name, "padding", module.padding),
    )


def _check_settings(name: str, module: nn.Module, **expected: int | bool | str) -> None:
    for key, value in expected.items():
        given = getattr(module, key)
        if given not in (value, (value, value)):
            raise NetworkError(f"module '{name}': {key} = {given}, only {value!r} is supported")


def _check_bias(name: str, module: nn.Conv2d | nn.Linear) -> None:
    if cast("nn.Parameter | None", module.bias) is None:
        raise NetworkError(f"module '{name}' has no bias: build it with bias=True")


def _square(name: str, key: str, value: object) -> int:
    sides = value if isinstance(value, tuple) else (value, value)
    if len(set(sides)) != 1 or not isinstance(sides[0], int):
        raise NetworkError(
            f"module '{name}': {key} = {value!r}, expected the same whole number twice"
        )
    return sides[0]


def _check_flattening(children: list[tuple[str, nn.Module]], network: Network) -> None:
    """A feature map becomes a vector in one place: a Flatten right before a Linear."""
    shapes = dict(zip((layer.name for layer in network.layers), network.shapes, strict=False))
    flattened = False
    for name, child in children:
        takes_map = isinstance(child, nn.Linear) and len(shapes[name]) == 3
        if takes_map != flattened:
            raise NetworkError(
                f"module '{name}': expected a Flatten between feature maps and the first Linear, "
                "and nowhere else"
            )
        flattened = isinstance(child, nn.Flatten)
        if flattened:
            _check_settings(name, child, start_dim=1, end_dim=-1)
    if flattened:
        raise NetworkError(
            f"module '{children[-1][0]}': a Flatten at the end: put a Linear behind it"
        )
