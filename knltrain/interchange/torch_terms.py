"""Layers in PyTorch's terms, both ways: the modules that compute a layer, the layer of a module."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from knltrain.errors import NetworkError
from knltrain.network.layers import (
    Addition,
    AveragePooling,
    BatchNormalisation,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    Pair,
    ReLU,
    Shape,
)

TORCH_NAMES = {
    "weights": "weight",
    "bias": "bias",
    "scale": "weight",
    "shift": "bias",
    "running_mean": "running_mean",
    "running_variance": "running_var",
}
"""Role of a parameter -> what PyTorch calls it."""

Join: TypeAlias = Literal["cat", "add"]
"""The function that joins several inputs: `torch.cat` of channels, or `torch.add`."""


@dataclass(frozen=True, slots=True)
class TorchModule:
    """A class of `torch.nn`, and the arguments of an instance."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TorchTerms:
    """A layer: how its inputs are joined, if there are several, and the modules that follow."""

    modules: tuple[TorchModule, ...] = ()
    join: Join | None = None


def terms_of(layer: Layer, shape: Shape) -> TorchTerms:
    """The modules of a layer whose inputs have `shape`; NetworkError where PyTorch has none."""
    terms = _TERMS.get(type(layer))
    if terms is None:
        raise NetworkError(f"layer '{layer.name}': {type(layer).__name__} has no PyTorch module")
    return terms(layer, shape)


def _convolution(layer: Convolution, shape: Shape) -> TorchTerms:
    window = layer.window
    arguments = {
        "in_channels": shape[2],
        "out_channels": layer.filters,
        "kernel_size": window.kernel,
        "stride": window.stride,
        "padding": window.padding,
        "dilation": window.dilation,
        "groups": layer.groups,
        "bias": layer.bias,
    }
    return TorchTerms((TorchModule("Conv2d", arguments),))


def _dense(layer: Dense, shape: Shape) -> TorchTerms:
    arguments = {"in_features": math.prod(shape), "out_features": layer.units, "bias": layer.bias}
    linear = TorchModule("Linear", arguments)
    return TorchTerms((TorchModule("Flatten"), linear) if len(shape) == 3 else (linear,))


def _batch_normalisation(layer: BatchNormalisation, shape: Shape) -> TorchTerms:
    arguments = {"num_features": shape[2], "eps": layer.epsilon, "momentum": layer.momentum}
    return TorchTerms((TorchModule("BatchNorm2d", arguments),))


def _local_response(layer: LocalResponseNormalisation, _shape: Shape) -> TorchTerms:
    arguments = {"size": layer.size, "alpha": layer.alpha, "beta": layer.beta, "k": layer.bias}
    return TorchTerms((TorchModule("LocalResponseNorm", arguments),))


def _pooling(layer: MaxPooling | AveragePooling, _shape: Shape) -> TorchTerms:
    window = layer.window
    arguments = {
        "kernel_size": window.kernel,
        "stride": window.stride,
        "padding": window.padding,
        "ceil_mode": layer.ceil,
    }
    name = "MaxPool2d" if isinstance(layer, MaxPooling) else "AvgPool2d"
    return TorchTerms((TorchModule(name, arguments),))


def _global_pooling(_layer: GlobalAveragePooling, _shape: Shape) -> TorchTerms:
    return TorchTerms(
        (TorchModule("AdaptiveAvgPool2d", {"output_size": 1}), TorchModule("Flatten"))
    )


def _rectifier(layer: ReLU, _shape: Shape) -> TorchTerms:
    bent = TorchModule("LeakyReLU", {"negative_slope": layer.slope})
    if layer.ceiling == math.inf:
        return TorchTerms((bent if layer.slope else TorchModule("ReLU"),))
    lowest = -math.inf if layer.slope else 0.0
    cut = TorchModule("Hardtanh", {"min_val": lowest, "max_val": layer.ceiling})
    return TorchTerms((bent, cut) if layer.slope else (cut,))


def _dropout(layer: Dropout, _shape: Shape) -> TorchTerms:
    return TorchTerms((TorchModule("Dropout", {"p": layer.rate}),))


def _concatenation(_layer: Concatenation, _shape: Shape) -> TorchTerms:
    return TorchTerms(join="cat")


def _addition(_layer: Addition, _shape: Shape) -> TorchTerms:
    return TorchTerms(join="add")


_TERMS: dict[type[Layer], Callable[[Any, Shape], TorchTerms]] = {
    Addition: _addition,
    AveragePooling: _pooling,
    BatchNormalisation: _batch_normalisation,
    Concatenation: _concatenation,
    Convolution: _convolution,
    Dense: _dense,
    Dropout: _dropout,
    GlobalAveragePooling: _global_pooling,
    LocalResponseNormalisation: _local_response,
    MaxPooling: _pooling,
    ReLU: _rectifier,
}


def _read_convolution(name: str, module: Any) -> Layer:
    check_settings(name, module, padding_mode="zeros")
    return Convolution(
        name,
        module.out_channels,
        _extent(name, module, "kernel_size"),
        _extent(name, module, "stride"),
        _extent(name, module, "padding"),
        _extent(name, module, "dilation"),
        module.groups,
        module.bias is not None,
    )


def _read_dense(name: str, module: Any) -> Layer:
    return Dense(name, module.out_features, module.bias is not None)


def _read_max_pooling(name: str, module: Any) -> Layer:
    check_settings(name, module, dilation=1, return_indices=False)
    return MaxPooling(
        name,
        _extent(name, module, "kernel_size"),
        _extent(name, module, "stride"),
        _extent(name, module, "padding"),
        module.ceil_mode,
    )


def _read_average_pooling(name: str, module: Any) -> Layer:
    padding = _extent(name, module, "padding")
    check_settings(name, module, divisor_override=None)
    if padding != (0, 0):
        check_settings(name, module, count_include_pad=True)
    return AveragePooling(
        name,
        _extent(name, module, "kernel_size"),
        _extent(name, module, "stride"),
        padding,
        module.ceil_mode,
    )


def _read_global_pooling(name: str, module: Any) -> Layer:
    check_settings(name, module, output_size=1)
    return GlobalAveragePooling(name)


def _read_batch_normalisation(name: str, module: Any) -> Layer:
    check_settings(name, module, affine=True, track_running_stats=True)
    if module.momentum is None:
        raise NetworkError(f"module '{name}': momentum = None, expected a number such as 0.1")
    return BatchNormalisation(name, module.eps, module.momentum)


def _read_local_response(name: str, module: Any) -> Layer:
    return LocalResponseNormalisation(name, module.size, module.alpha, module.beta, module.k)


def _read_dropout(name: str, module: Any) -> Layer:
    return Dropout(name, module.p)


def _read_rectifier(name: str, module: Any) -> Layer:
    kind = type(module).__name__
    if kind == "LeakyReLU":
        return ReLU(name, slope=module.negative_slope)
    return ReLU(name, ceiling=6.0 if kind == "ReLU6" else math.inf)


READERS: dict[str, Callable[[str, Any], Layer]] = {
    "Conv2d": _read_convolution,
    "Linear": _read_dense,
    "MaxPool2d": _read_max_pooling,
    "AvgPool2d": _read_average_pooling,
    "AdaptiveAvgPool2d": _read_global_pooling,
    "BatchNorm2d": _read_batch_normalisation,
    "LocalResponseNorm": _read_local_response,
    "Dropout": _read_dropout,
    "ReLU": _read_rectifier,
    "LeakyReLU": _read_rectifier,
    "ReLU6": _read_rectifier,
}
"""Class of `torch.nn` -> the layer that such a module is, from its name and itself."""


def _extent(name: str, module: Any, key: str) -> Pair:
    value: object = getattr(module, key)
    sides = value if isinstance(value, tuple) else (value, value)
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise NetworkError(f"module '{name}': {key} = {value!r}, expected one whole number or two")
    return sides[0], sides[1]


def check_settings(name: str, module: Any, **expected: object) -> None:
    """Raise NetworkError for a setting of a module that is not the one expected."""
    for key, value in expected.items():
        given = getattr(module, key)
        if given not in (value, (value, value)):
            raise NetworkError(f"module '{name}': {key} = {given}, only {value!r} is supported")
