"""PyTorch as a backend: the reference, and the baseline that the cpu backend has to beat."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from knltrain.backends.backend import Backend, FloatArray
from knltrain.backends.by_address import ByAddress
from knltrain.data.dataset import Batch
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.torch_modules import FLATTEN_SUFFIX, to_torch


class TorchBackend(Backend):
    """A network as PyTorch modules on the CPU, with oneDNN kernels in channels-last layout.

    Modules and gradients are views on the packed vectors of each call, so nothing is copied. The
    number of threads is PyTorch's, and so the whole process's.
    """

    def __init__(self, network: Network, batch: int, threads: int) -> None:  # noqa: ARG002
        torch.set_num_threads(threads)
        self._network = network
        self._modules = ByAddress(self._as_modules)
        self._gradients = ByAddress(self._as_tensors)

    def loss_and_gradient(
        self, batch: Batch, parameters: FloatArray, gradient: FloatArray
    ) -> float:
        """Mean softmax cross-entropy over the batch; its gradient overwrites `gradient`."""
        module = self._modules.of(parameters)
        for parameter, view in zip(module.parameters(), self._gradients.of(gradient), strict=True):
            parameter.grad = view
        gradient.fill(0)  # backward adds to .grad
        loss = functional.cross_entropy(module(_nchw(batch)), torch.from_numpy(batch.labels))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    @torch.no_grad()
    def evaluate(self, batch: Batch, parameters: FloatArray) -> tuple[float, int]:
        """Sum of the losses of the batch's images, and how many of them are classified right."""
        logits = self._modules.of(parameters)(_nchw(batch))
        labels = torch.from_numpy(batch.labels)
        losses = functional.cross_entropy(logits, labels, reduction="sum")
        return losses.item(), int((logits.argmax(dim=1) == labels).sum().item())

    @torch.no_grad()
    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite; None when all outputs are."""
        values = _nchw(batch)
        for name, module in self._modules.of(parameters).named_children():
            values = module(values)
            if not torch.isfinite(values).all():
                return name.removesuffix(FLATTEN_SUFFIX)
        return None

    def close(self) -> None:
        """Let go of the packed vectors."""
        self._modules.clear()
        self._gradients.clear()

    def _as_modules(self, parameters: FloatArray) -> nn.Sequential:
        return to_torch(self._network, ParameterVector(self._network, parameters))

    def _as_tensors(self, gradient: FloatArray) -> list[torch.Tensor]:
        views = ParameterVector(self._network, gradient).views
        return [torch.from_numpy(view) for view in views.values()]


def _nchw(batch: Batch) -> torch.Tensor:
    """The images as PyTorch's (N,C,H,W), which on these strides is its channels-last layout."""
    return torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2)
