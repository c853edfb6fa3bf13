"""PyTorch as a backend: the reference, and the baseline that the cpu backend has to beat."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from knltrain.backends.backend import Backend, FloatArray
from knltrain.data.dataset import Batch
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.torch_modules import to_torch

REMEMBERED_VECTORS = 8


class TorchBackend(Backend):
    """A network as PyTorch modules on the CPU, with oneDNN kernels in channels-last layout.

    Modules and gradients are views on the packed vectors of each call, so nothing is copied. The
    views are kept for the latest vectors, told apart by their address; a view keeps its vector
    alive. The number of threads is PyTorch's, and so the whole process's.
    """

    def __init__(self, network: Network, batch: int, threads: int) -> None:  # noqa: ARG002
        torch.set_num_threads(threads)
        self._network = network
        self._modules: dict[int, nn.Sequential] = {}
        self._gradients: dict[int, list[torch.Tensor]] = {}

    def loss_and_gradient(
        self, batch: Batch, parameters: FloatArray, gradient: FloatArray
    ) -> float:
        """Mean softmax cross-entropy over the batch; its gradient overwrites `gradient`."""
        module = self._module(parameters)
        for parameter, view in zip(
            module.parameters(), self._gradient_views(gradient), strict=True
        ):
            parameter.grad = view
        gradient.fill(0)  # backward adds to .grad
        loss = functional.cross_entropy(module(_nchw(batch)), torch.from_numpy(batch.labels))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    @torch.no_grad()
    def evaluate(self, batch: Batch, parameters: FloatArray) -> tuple[float, int]:
        """Sum of the losses of the batch's images, and how many of them are classified right."""
        logits = self._module(parameters)(_nchw(batch))
        labels = torch.from_numpy(batch.labels)
        losses = functional.cross_entropy(logits, labels, reduction="sum")
        return losses.item(), int((logits.argmax(dim=1) == labels).sum().item())

    @torch.no_grad()
    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite; None when all outputs are."""
        values = _nchw(batch)
        for name, module in self._module(parameters).named_children():
            values = module(values)
            if not torch.isfinite(values).all():
                return name
        return None

    def close(self) -> None:
        """Let go of the packed vectors."""
        self._modules.clear()
        self._gradients.clear()

    def _module(self, parameters: FloatArray) -> nn.Sequential:
        vector = ParameterVector(self._network, parameters)
        address = parameters.ctypes.data
        if address not in self._modules:
            _forget_oldest(self._modules)
            self._modules[address] = to_torch(self._network, vector)
        return self._modules[address]

    def _gradient_views(self, gradient: FloatArray) -> list[torch.Tensor]:
        vector = ParameterVector(self._network, gradient)
        address = gradient.ctypes.data
        if address not in self._gradients:
            _forget_oldest(self._gradients)
            self._gradients[address] = [torch.from_numpy(view) for view in vector.views.values()]
        return self._gradients[address]


def _forget_oldest(views: dict[int, Any]) -> None:
    if len(views) == REMEMBERED_VECTORS:
        del views[next(iter(views))]


def _nchw(batch: Batch) -> torch.Tensor:
    """The images as PyTorch's (N,C,H,W), which on these strides is its channels-last layout."""
    return torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2)
