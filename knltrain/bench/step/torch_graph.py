"""A described network as ordinary PyTorch modules; needs torch alone, as `torch_peer` does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Description = Mapping[str, Any]
"""A network, layer or parameter as `knltrain.bench.step.job` describes it."""

ATTRIBUTES = {
    "weights": "weight",
    "bias": "bias",
    "scale": "weight",
    "shift": "bias",
    "running_mean": "running_mean",
    "running_variance": "running_var",
}
"""Role of a parameter -> what PyTorch calls it."""

OVERWRITABLE = ("Convolution", "Dense", "BatchNormalisation", "Addition")
"""Layers whose backward pass does not look at their own output, so that a ReLU may change it."""


class Graph(nn.Module):
    """The network in eager mode; forward takes images (N,C,H,W), returns all outputs' logits."""

    def __init__(self, network: Description) -> None:
        super().__init__()
        self.layers, self.outputs = network["layers"], network["outputs"]
        overwritten = _overwritten(network)
        self.modules_in_order = nn.ModuleList(
            module_of(layer, layer["name"] in overwritten) for layer in self.layers
        )

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Compute every layer."""
        values = {"images": images}
        for layer, module in zip(self.layers, self.modules_in_order, strict=True):
            values[layer["name"]] = module(*(values[name] for name in layer["inputs"]))
        return [values[output["layer"]] for output in self.outputs]

    def loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of the outputs' mean cross-entropies."""
        losses = [functional.cross_entropy(logits, labels) for logits in self(images)]
        weights = [output["weight"] for output in self.outputs]
        return torch.stack(losses) @ torch.tensor(weights, dtype=torch.float32, device="cpu")

    @torch.no_grad()
    def load(self, parameters: list[Description], arrays: Mapping[str, Any]) -> None:
        """Copy parameters and running statistics into the modules."""
        names = [layer["name"] for layer in self.layers]
        modules = dict(zip(names, self.modules_in_order, strict=True))
        for spec in parameters:
            module = modules[spec["layer"]]
            holder = module[-1] if isinstance(module, nn.Sequential) else module
            values = torch.from_numpy(arrays[spec["name"]])
            getattr(holder, ATTRIBUTES[spec["role"]]).copy_(values)


class Concatenate(nn.Module):
    """Channels behind each other."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return one map."""
        return torch.cat(inputs, dim=1)


class Add(nn.Module):
    """The sum of two inputs."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        return left + right


def module_of(layer: Description, inplace: bool = False) -> nn.Module:
    """Return the module of a layer; `inplace` is for rectifiers. ValueError for unknown types."""
    kind, shape = layer["type"], layer["input_shapes"][0]
    if kind in ("Convolution", "Dense", "BatchNormalisation"):
        return _with_parameters(layer, shape)
    if kind in ("MaxPooling", "AveragePooling"):
        pooling = nn.MaxPool2d if kind == "MaxPooling" else nn.AvgPool2d
        return pooling(
            _extent(layer["kernel"]),
            _extent(layer["stride"]),
            _extent(layer["padding"]),
            ceil_mode=layer["ceil"],
        )
    if kind == "GlobalAveragePooling":
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    if kind == "LocalResponseNormalisation":
        return nn.LocalResponseNorm(layer["size"], layer["alpha"], layer["beta"], layer["bias"])
    if kind == "ReLU":
        return _rectifier(layer["slope"], layer["ceiling"], inplace)
    if kind == "Dropout":
        return nn.Dropout(layer["rate"])
    if kind in ("Concatenation", "Addition"):
        return Concatenate() if kind == "Concatenation" else Add()
    raise ValueError(f"layer type {kind!r} is unknown to the PyTorch peer")


def _with_parameters(layer: Description, shape: list[int]) -> nn.Module:
    if layer["type"] == "BatchNormalisation":
        return nn.BatchNorm2d(shape[2], layer["epsilon"], layer["momentum"])
    if layer["type"] == "Convolution":
        return nn.Conv2d(
            shape[2],
            layer["filters"],
            _extent(layer["kernel"]),
            _extent(layer["stride"]),
            _extent(layer["padding"]),
            _extent(layer["dilation"]),
            layer["groups"],
            layer["bias"],
        )
    linear = nn.Linear(math.prod(shape), layer["units"], layer["bias"])
    return nn.Sequential(nn.Flatten(), linear) if len(shape) == 3 else linear


def _rectifier(slope: float, ceiling: float, inplace: bool) -> nn.Module:
    if ceiling == math.inf:
        return nn.LeakyReLU(slope, inplace) if slope else nn.ReLU(inplace)
    if not slope:
        return nn.Hardtanh(0.0, ceiling, inplace)
    return nn.Sequential(nn.LeakyReLU(slope, inplace), nn.Hardtanh(-math.inf, ceiling))


def _extent(value: Any) -> Any:
    """Return a number as it is, and JSON's list of two as the pair that PyTorch wants."""
    return tuple(value) if isinstance(value, list | tuple) else value


def _overwritten(network: Description) -> set[str]:
    """Return the rectifiers that may work in place, as people write them in PyTorch.

    Nobody else may take what they overwrite.
    """
    takers = Counter(name for layer in network["layers"] for name in layer["inputs"])
    takers.update(output["layer"] for output in network["outputs"])
    alone = {
        layer["name"]
        for layer in network["layers"]
        if layer["type"] in OVERWRITABLE and takers[layer["name"]] == 1
    }
    return {
        layer["name"]
        for layer in network["layers"]
        if layer["type"] == "ReLU" and layer["inputs"][0] in alone
    }
