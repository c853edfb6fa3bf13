"""Converts PyTorch modules to networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from knltrain.errors import NetworkError
from knltrain.interchange.checked_module import checked_module, unwrapped
from knltrain.interchange.comparison import check_same
from knltrain.interchange.exported_graph import ExportedGraph
from knltrain.interchange.module_reading import ModuleReading
from knltrain.interchange.torch_terms.padding import without_paddings
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector


@final
@dataclass(frozen=True, slots=True, eq=False)
class ImportedNetwork:
    """A network made of a PyTorch module, with a copy of the module's parameters."""

    network: Network
    parameters: ParameterVector
    module: nn.Module
    """The module as it was given, but for wrappers."""
    keys: dict[str, str]
    """Name of each parameter in the network -> its name in the module's state."""

    def to_torch(self) -> nn.Module:
        """The module itself, with the values that `parameters` have now."""
        state: dict[str, torch.Tensor] = {
            **dict(self.module.named_parameters(remove_duplicate=False)),
            **dict(self.module.named_buffers(remove_duplicate=False)),
        }
        with torch.no_grad():
            for name, key in self.keys.items():
                tensor = state[key]
                tensor.copy_(torch.from_numpy(self.parameters.views[name]).reshape(tensor.shape))
        return self.module


def from_torch(
    module: nn.Module,
    example: torch.Tensor,
    auxiliary_weights: Sequence[float] = (),
    name: str | None = None,
) -> ImportedNetwork:
    """A network that computes what a module does, and a copy of its parameters.

    `example` holds one or more images (N,C,H,W) float32. The forward pass is read by
    `torch.export`, in training mode. The first output are the logits, and each further one needs
    the weight of its loss in `auxiliary_weights`. Layers have the names of the submodules. By
    default the network has the name of the module's class.

    Raises NetworkError, which names the submodule, the line of its `forward` and what would do
    instead, for anything that a network cannot express; and if in evaluation the network's outputs
    for `example` differ from the module's by more than 1e-4 of the largest, or the gradients of a
    weighted sum of them by more than 1e-3.
    """
    own = checked_module(module, example)
    example = example.detach().cpu().clone()
    graph = ExportedGraph(own, example)
    reading = ModuleReading(graph, own)
    outputs = reading.outputs(auxiliary_weights)
    channels, height, width = example.shape[1:]
    network = Network(
        name or type(own).__name__,
        (height, width, channels),
        without_paddings(reading.layers, outputs),
        outputs,
    )
    if not network.parameters:
        raise NetworkError(
            f"{type(own).__name__} has no parameters that its logits need: expected a module that "
            "can be trained"
        )
    parameters = ParameterVector(network)
    for spec in network.parameters:
        values = graph.values[reading.keys[spec.name]].detach().numpy()
        parameters.views[spec.name][...] = values.reshape(spec.shape)
    check_same(own, network, parameters, reading.keys, example)
    return ImportedNetwork(network, parameters, unwrapped(module), reading.keys)
