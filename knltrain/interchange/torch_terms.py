"""Layers as PyTorch modules: the class of module for each layer, and its arguments."""

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
