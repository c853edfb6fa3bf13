"""Convolutions with the kernels and weight layouts of Intel's extension for PyTorch, 2.8."""

from __future__ import annotations

from typing import Any

import torch

from knltrain.backends.backend import Ready
from knltrain.backends.cpu.backend import ViewCache
from knltrain.backends.torch.execution import Execution, Tensors
from knltrain.backends.torch.installed import check_ipex
from knltrain.interchange.to_torch import NetworkModule, to_torch
from knltrain.interchange.torch_terms import TORCH_NAMES
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray


class IpexExecution(Execution):
    """Modules that went through `ipex.optimize` for training in float32.

    IPEX keeps a convolution's weights, and computes their gradient, in the layout of its kernels.
    The weights are copied into that layout before each call, and their gradients back after it: two
    copies of these weights' size. All other parameters and gradients are views on the packed
    vectors. Raises ConfigError where torch 2.8 and IPEX 2.8 are not installed.
    """

    def __init__(self, network: Network) -> None:
        check_ipex()
        self._network = network
        self._trained = [spec for spec in network.parameters if not spec.is_statistic]
        self._modules = ViewCache(self._as_module)
        self._tensors = ViewCache(self._as_tensors)

    @torch.no_grad()
    def module_of(self, parameters: FloatArray) -> NetworkModule:
        """The module of `parameters`, its convolutions' weights copied anew."""
        module, values = self._modules.of(parameters), self._tensors.of(parameters)
        for name, layer in self._reordered(module).items():
            layer.weight.copy_(layer.ctx.pack(values[name]))
        return module

    def backward(
        self,
        loss: torch.Tensor,
        module: NetworkModule,
        gradients: Tensors,
        ready: Ready,  # noqa: ARG002 (all of it is done with the return)
    ) -> None:
        """Let PyTorch add to `gradients`, and copy those of the convolutions' weights there."""
        layers, reordered = dict(module.named_children()), self._reordered(module)
        for spec in self._trained:
            parameter = getattr(layers[spec.layer], TORCH_NAMES[spec.role])
            parameter.grad = None if spec.name in reordered else gradients[spec.name]
        loss.backward()  # type: ignore[no-untyped-call]
        for name, layer in reordered.items():
            gradients[name].copy_(layer.ctx.to_public(layer.weight.grad))

    def close(self) -> None:
        """Release the packed vectors."""
        self._modules.clear()
        self._tensors.clear()

    def _as_module(self, parameters: FloatArray) -> NetworkModule:
        ipex = _imported_ipex()
        module = to_torch(self._network, ParameterVector(self._network, parameters)).train()
        unused = torch.optim.SGD(module.parameters(), 0.0)  # IPEX trains nothing without one.
        ipex.optimize(module, torch.float32, unused, inplace=True, fuse_update_step=False)
        return module

    def _as_tensors(self, parameters: FloatArray) -> Tensors:
        views = ParameterVector(self._network, parameters).views
        return {spec.name: torch.from_numpy(views[spec.name]) for spec in self._trained}

    def _reordered(self, module: NetworkModule) -> dict[str, Any]:
        """The layers whose weights IPEX keeps in a layout of its own, by the weights' names."""
        layers = dict(module.named_children())
        weights = {
            spec.name: layers[spec.layer] for spec in self._trained if spec.role == "weights"
        }
        return {name: layer for name, layer in weights.items() if hasattr(layer, "ctx")}


def _imported_ipex() -> Any:
    """IPEX, imported without torch's background processes for compiling.

    Nothing is compiled here, and they would live as long as this process.
    """
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    import intel_extension_for_pytorch

    return intel_extension_for_pytorch
