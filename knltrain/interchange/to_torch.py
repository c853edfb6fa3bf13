"""Converts networks to PyTorch modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

import torch
from torch import nn

from knltrain.interchange import own_modules as _own
from knltrain.interchange.torch_terms import TORCH_NAMES, TorchModule, terms_of
from knltrain.network.graph import Output
from knltrain.network.layers import IMAGES, Layer
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray

_NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
_FROZEN = (_own.FrozenBatchNorm1d, _own.FrozenBatchNorm2d)
_WITH_PARAMETERS = (
    *("Conv2d", "Linear", "BatchNorm1d", "BatchNorm2d", "FrozenBatchNorm1d", "FrozenBatchNorm2d"),
    *("ChannelNorm", "ChannelScale", "PReLU"),
)


TensorOf: TypeAlias = Callable[[FloatArray], torch.Tensor]
"""Makes a tensor of a parameter's view on a packed vector."""


def to_torch(
    network: Network, parameters: ParameterVector, tensor_of: TensorOf = torch.from_numpy
) -> NetworkModule:
    """The network as a module with submodules named like its layers.

    Parameters and running statistics are views on `parameters`: nothing is copied, and a change on
    either side is visible on the other. Unless `tensor_of` puts them elsewhere.
    """
    return NetworkModule(network, parameters, tensor_of)


class NetworkModule(nn.Module):
    """Executes a network's graph on images (N,C,H,W) float32."""

    def __init__(
        self, network: Network, parameters: ParameterVector, tensor_of: TensorOf = torch.from_numpy
    ) -> None:
        super().__init__()
        self.network = network
        self._terms = {
            layer.name: terms_of(layer, network.input_shapes(layer)[0]) for layer in network.layers
        }
        for name, terms in self._terms.items():
            modules = [_module(each) for each in terms.modules]
            if modules and isinstance(modules[0], nn.Flatten):
                del modules[0]  # so that parameters have the layer's name in the state
            if modules:
                # Not add_module, which refuses names that nn.Module itself uses, as "type".
                self._modules[name] = modules[0] if len(modules) == 1 else nn.Sequential(*modules)
        self._share(parameters, tensor_of)

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

        Values are released after the last of `layers` that takes them.
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

    def normalisations(self) -> dict[str, nn.BatchNorm1d | nn.BatchNorm2d]:
        """The batch normalisations that are not frozen, by the names of their layers."""
        return {
            name: module
            for name, module in self._modules.items()
            if isinstance(module, _NORMALISATIONS) and not isinstance(module, _FROZEN)
        }

    def _computed(self, layer: Layer, inputs: list[torch.Tensor]) -> torch.Tensor:
        terms, values = self._terms[layer.name], inputs[0]
        if terms.join == "cat":
            values = torch.cat(inputs, dim=1)
        elif terms.join == "add":
            values = torch.add(*inputs)
        elif terms.join == "channel product":
            values = inputs[0] * inputs[1][:, :, None, None]
        if terms.modules and terms.modules[0].name == "Flatten":
            values = values.flatten(1)
        module = self._modules.get(layer.name)
        return values if module is None else cast("torch.Tensor", module(values))

    def _share(self, parameters: ParameterVector, tensor_of: TensorOf) -> None:
        """Replace the modules' own parameters by views on the packed vector."""
        for spec in self.network.parameters:
            module = cast("nn.Module", self._modules[spec.layer])
            values = tensor_of(parameters.views[spec.name])
            if not spec.is_statistic:
                values = nn.Parameter(values)
            setattr(module, TORCH_NAMES[spec.role], values)


def _module(described: TorchModule) -> nn.Module:
    """Make a module.

    Its parameters are on the meta device, which allocates nothing: views on a packed vector replace
    them.
    """
    make = getattr(_own, described.name, None) or getattr(nn, described.name)
    if described.name not in _WITH_PARAMETERS:
        return cast("nn.Module", make(**described.arguments))
    module = make(**described.arguments, device="meta", dtype=torch.float32)
    if isinstance(module, _NORMALISATIONS):
        module.num_batches_tracked = torch.zeros((), dtype=torch.long, device="cpu")
    return cast("nn.Module", module)
