"""Networks to PyTorch modules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import nn
from torch.nn import functional

from knltrain.errors import NetworkError
from knltrain.network.graph import Output
from knltrain.network.layers import (
    IMAGES,
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
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

TORCH_NAMES = {
    "weights": "weight",
    "bias": "bias",
    "scale": "weight",
    "shift": "bias",
    "running_mean": "running_mean",
    "running_variance": "running_var",
}
"""Role of a parameter -> what PyTorch calls it."""


def to_torch(network: Network, parameters: ParameterVector) -> NetworkModule:
    """The network as a module with submodules named like its layers.

    Parameters and running statistics are views on `parameters`: nothing is copied, and a change on
    either side is seen on the other.
    """
    return NetworkModule(network, parameters)


class NetworkModule(nn.Module):
    """Executes a network's graph on images (N,C,H,W) float32."""

    def __init__(self, network: Network, parameters: ParameterVector) -> None:
        super().__init__()
        self.network = network
        for layer in network.layers:
            module = _module(layer, network.input_shapes(layer)[0])
            if module is not None:
                # Not add_module, which refuses names that nn.Module itself uses, as "type".
                self._modules[layer.name] = module
        self._share(parameters)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (N,classes) of the network's first output."""
        return self.logits(images, self.network.outputs[:1])[0]

    def logits(self, images: torch.Tensor, outputs: Sequence[Output]) -> list[torch.Tensor]:
        """Logits (N,classes) of each of `outputs`; layers that none of them needs do not run."""
        wanted = {output.layer for output in outputs}
        steps = self.steps(images, self.network.needed_for(outputs))
        found = {name: values for name, values in steps if name in wanted}
        return [found[output.layer] for output in outputs]

    def steps(
        self, images: torch.Tensor, layers: Sequence[Layer]
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Run `layers` one after the other; yield the name of each and its output.

        Values are let go behind the last of `layers` that takes them.
        """
        inputs = {layer.name: self.network.inputs_of(layer) for layer in layers}
        last = {source: name for name, sources in inputs.items() for source in sources}
        values = {IMAGES: images}
        for layer in layers:
            sources = inputs[layer.name]
            values[layer.name] = self._computed(layer, [values[name] for name in sources])
            for name in sources:
                if last[name] == layer.name:
                    del values[name]
            yield layer.name, values[layer.name]

    def normalisations(self) -> dict[str, nn.BatchNorm2d]:
        """The batch normalisations by the names of their layers."""
        return {
            name: module
            for name, module in self._modules.items()
            if isinstance(module, nn.BatchNorm2d)
        }

    def _computed(self, layer: Layer, inputs: list[torch.Tensor]) -> torch.Tensor:
        if isinstance(layer, Concatenation):
            return torch.cat(inputs, dim=1)
        if isinstance(layer, Addition):
            return inputs[0] + inputs[1]
        if isinstance(layer, GlobalAveragePooling):
            return functional.adaptive_avg_pool2d(inputs[0], 1).flatten(1)
        values = inputs[0].flatten(1) if isinstance(layer, Dense) else inputs[0]
        return cast("torch.Tensor", cast("nn.Module", self._modules[layer.name])(values))

    def _share(self, parameters: ParameterVector) -> None:
        """Put views on the packed vector in place of what the modules came with."""
        for spec in self.network.parameters:
            module = cast("nn.Module", self._modules[spec.layer])
            values = torch.from_numpy(parameters.views[spec.name])
            if not spec.is_statistic:
                values = nn.Parameter(values)
            setattr(module, TORCH_NAMES[spec.role], values)


def _module(layer: Layer, shape: Shape) -> nn.Module | None:
    """The module of a layer with inputs of `shape`; None for what needs no module."""
    if isinstance(layer, Convolution | Dense | BatchNormalisation):
        return _with_parameters(layer, shape)
    if isinstance(layer, Concatenation | Addition | GlobalAveragePooling):
        return None
    if isinstance(layer, MaxPooling):
        window = layer.window
        return nn.MaxPool2d(window.kernel, window.stride, window.padding, ceil_mode=layer.ceil)
    if isinstance(layer, AveragePooling):
        window = layer.window
        return nn.AvgPool2d(window.kernel, window.stride, window.padding, layer.ceil)
    if isinstance(layer, LocalResponseNormalisation):
        return nn.LocalResponseNorm(layer.size, layer.alpha, layer.beta, layer.bias)
    if isinstance(layer, Dropout):
        return nn.Dropout(layer.rate)
    if isinstance(layer, ReLU):
        return _rectifier(layer)
    raise NetworkError(f"layer '{layer.name}': {type(layer).__name__} has no PyTorch module")


def _with_parameters(layer: Convolution | Dense | BatchNormalisation, shape: Shape) -> nn.Module:
    """On the meta device, which allocates nothing: views on a packed vector come in their place."""
    if isinstance(layer, Dense):
        inputs = math.prod(shape)
        return nn.Linear(inputs, layer.units, layer.bias, device="meta", dtype=torch.float32)
    if isinstance(layer, BatchNormalisation):
        module = nn.BatchNorm2d(
            shape[2], layer.epsilon, layer.momentum, device="meta", dtype=torch.float32
        )
        module.num_batches_tracked = torch.zeros((), dtype=torch.long, device="cpu")
        return module
    window = layer.window
    return nn.Conv2d(
        shape[2],
        layer.filters,
        window.kernel,
        window.stride,
        window.padding,
        window.dilation,
        layer.groups,
        layer.bias,
        device="meta",
        dtype=torch.float32,
    )


def _rectifier(layer: ReLU) -> nn.Module:
    if layer.ceiling == math.inf:
        return nn.LeakyReLU(layer.slope) if layer.slope else nn.ReLU()
    if not layer.slope:
        return nn.Hardtanh(0.0, layer.ceiling)
    return nn.Sequential(nn.LeakyReLU(layer.slope), nn.Hardtanh(-math.inf, layer.ceiling))
