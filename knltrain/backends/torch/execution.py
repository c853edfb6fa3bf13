"""Runs a network's PyTorch modules on parameters and gradient in packed vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial

import torch

from knltrain.backends.backend import Ready
from knltrain.backends.cpu.backend import ViewCache
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.backends.torch.progress import BackwardProgress
from knltrain.interchange.to_torch import NetworkModule, to_torch
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray

Tensors = Mapping[str, torch.Tensor]
"""Views on a packed vector by the names of its parameters."""


class Execution(ABC):
    """Modules that compute with packed vectors, and their gradients as packed vectors."""

    @abstractmethod
    def module_of(self, parameters: FloatArray) -> NetworkModule:
        """A module that computes with the current values of the packed vector `parameters`."""

    @abstractmethod
    def backward(
        self, loss: torch.Tensor, module: NetworkModule, gradients: Tensors, ready: Ready
    ) -> None:
        """Write the gradient of `loss`, which `module` computed, into `gradients`, which are zero.

        Gradients of running statistics are not written. `ready` may be called as those of backends.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the packed vectors."""


class EagerExecution(Execution):
    """PyTorch's own modules, whose parameters and gradients are views on the packed vectors.

    Or on their mirrors, which the backend loads and stores.
    """

    def __init__(self, network: Network, mirrors: Mirrors | None = None) -> None:
        self._network = network
        self._mirrors = Mirrors() if mirrors is None else mirrors
        self._trained = [spec for spec in network.parameters if not spec.is_statistic]
        self._modules = ViewCache(self._as_module)
        self._progress = BackwardProgress(network.parameters)

    def module_of(self, parameters: FloatArray) -> NetworkModule:
        """The module whose parameters are views on `parameters`."""
        return self._modules.of(parameters)

    def backward(
        self, loss: torch.Tensor, module: NetworkModule, gradients: Tensors, ready: Ready
    ) -> None:
        """Let PyTorch add to `gradients` themselves."""
        self._progress.begin(ready)
        for spec, parameter in zip(self._trained, module.parameters(), strict=True):
            parameter.grad = None if spec.is_frozen else gradients[spec.name]
        loss.backward()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Release the packed vectors."""
        self._modules.clear()

    def _as_module(self, parameters: FloatArray) -> NetworkModule:
        vector = ParameterVector(self._network, parameters)
        module = to_torch(self._network, vector, partial(self._mirrors.view, parameters))
        for spec, parameter in zip(self._trained, module.parameters(), strict=True):
            parameter.requires_grad_(not spec.is_frozen)
            if not spec.is_frozen:
                done = self._progress.hook(spec.name)
                parameter.register_post_accumulate_grad_hook(done)  # type: ignore[no-untyped-call]
        device = self._mirrors.device
        for name, buffer in module.named_buffers():
            if buffer.device != device:  # running statistics are there already
                parent, _, last = name.rpartition(".")
                setattr(module.get_submodule(parent), last, buffer.to(device))
        return module
