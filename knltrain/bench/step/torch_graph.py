"""A described network as ordinary PyTorch modules; needs torch alone, as `torch_peer` does.

The modules of ours that it takes need nothing else, either.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Description = Mapping[str, Any]
"""A network, layer or parameter as `knltrain.bench.step.job` describes it."""

OVERWRITABLE = ("Conv2d", "Linear", "BatchNorm2d")
"""Modules whose backward pass does not look at their own output, so that a ReLU may change it."""

RECTIFIERS = ("ReLU", "LeakyReLU", "Hardtanh")


def _own_modules() -> Any:
    """Return the modules that PyTorch lacks, of a file that needs PyTorch alone."""
    file = Path(__file__).parents[2] / "interchange" / "own_modules.py"
    spec = importlib.util.spec_from_file_location("own_modules", file)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # torch.compile looks for it by its name
    spec.loader.exec_module(found)
    return found


_OWN = _own_modules()


class Graph(nn.Module):
    """The network in eager mode; forward takes images (N,C,H,W), returns all outputs' logits."""

    weights: torch.Tensor
    """Of the outputs' losses."""

    def __init__(self, network: Description) -> None:
        super().__init__()
        self.layers, self.outputs = network["layers"], network["outputs"]
        weights = [output["weight"] for output in self.outputs]
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float32, device="cpu"))
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
        return torch.stack(losses) @ self.weights

    @torch.no_grad()
    def load(self, parameters: list[Description], arrays: Mapping[str, Any]) -> None:
        """Copy parameters and running statistics into the modules."""
        names = [layer["name"] for layer in self.layers]
        modules = dict(zip(names, self.modules_in_order, strict=True))
        for spec in parameters:
            module = modules[spec["layer"]]
            holder = module[-1] if isinstance(module, nn.Sequential) else module
            values = torch.from_numpy(arrays[spec["name"]])
            getattr(holder, spec["attribute"]).copy_(values)


class ConcatenationModule(nn.Module):
    """Channels behind each other."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return one map."""
        return torch.cat(inputs, dim=1)


class AdditionModule(nn.Module):
    """The sum of two inputs."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        return left + right


class ChannelProductModule(nn.Module):
    """Maps, each channel times a factor."""

    def forward(self, maps: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        """Return maps."""
        return maps * factors[:, :, None, None]


_JOINS = {
    "add": AdditionModule,
    "cat": ConcatenationModule,
    "channel product": ChannelProductModule,
}


def module_of(layer: Description, inplace: bool = False) -> nn.Module:
    """Return the module of a layer; `inplace` is for one that begins with a rectifier."""
    if layer["join"] is not None:
        return _JOINS[layer["join"]]()
    modules = []
    for number, described in enumerate(layer["modules"]):
        arguments = {name: _extent(value) for name, value in described["arguments"].items()}
        if inplace and not number:
            arguments["inplace"] = True
        kinds = _OWN if hasattr(_OWN, described["name"]) else nn
        modules.append(getattr(kinds, described["name"])(**arguments))
    return modules[0] if len(modules) == 1 else nn.Sequential(*modules)


def _extent(value: Any) -> Any:
    """Return a number as it is, and JSON's list of two as the pair that PyTorch wants."""
    return tuple(value) if isinstance(value, list | tuple) else value


def _overwritten(network: Description) -> set[str]:
    """Return the rectifiers that may work in place, as is usual in PyTorch.

    No other module may read the values that they overwrite.
    """
    takers = Counter(name for layer in network["layers"] for name in layer["inputs"])
    takers.update(output["layer"] for output in network["outputs"])
    alone = {
        layer["name"]
        for layer in network["layers"]
        if _is_overwritable(layer) and takers[layer["name"]] == 1
    }
    return {
        layer["name"]
        for layer in network["layers"]
        if layer["modules"]
        and layer["modules"][0]["name"] in RECTIFIERS
        and layer["inputs"][0] in alone
    }


def _is_overwritable(layer: Description) -> bool:
    if layer["modules"]:
        return layer["modules"][-1]["name"] in OVERWRITABLE
    return bool(layer["join"] == "add")
