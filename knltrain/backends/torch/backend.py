"""PyTorch as a backend: the reference, and the baseline that the cpu backend has to beat."""

from __future__ import annotations

import math

import torch

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.backends.cpu.backend import ViewCache
from knltrain.backends.loss import PLAIN, Loss
from knltrain.backends.torch.execution import EagerExecution, Execution, Tensors
from knltrain.backends.torch.losses import mean_loss, sum_of_losses
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.interchange.to_torch import NetworkModule
from knltrain.network.layers import BatchNormalisation
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray


class TorchBackend(Backend):
    """A network as PyTorch modules on the CPU, with oneDNN kernels in channels-last layout.

    `execution` runs the modules, eagerly by default. The number of threads is PyTorch's, and so the
    whole process's; dropout uses PyTorch's generator.
    """

    def __init__(
        self,
        network: Network,
        batch: int,  # noqa: ARG002
        threads: int,
        execution: Execution | None = None,
        loss: Loss = PLAIN,
    ) -> None:
        torch.set_num_threads(threads)
        self._network, self._loss = network, loss
        self._execution = execution or EagerExecution(network)
        self._tensors = ViewCache(self._as_tensors)
        frozen = {
            layer.name
            for layer in network.layers
            if isinstance(layer, BatchNormalisation) and layer.frozen
        }
        statistics = [spec for spec in network.parameters if spec.is_statistic]
        self._statistics = [each.name for each in statistics if each.layer not in frozen]
        self._fixed = [each.name for each in statistics if each.layer in frozen]
        self._fewest_pixels = _fewest_normalised_pixels(network)

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,  # noqa: ARG002 (all of it is done with the return)
    ) -> float:
        """Mean loss over the batch, summed over the outputs by their weights.

        Its gradient overwrites `gradient`; that of a running statistic is (running - batch's).
        """
        self._check_statistics(batch)
        module = self._execution.module_of(parameters).train()
        gradients = self._tensors.of(gradient)
        gradient.fill(0)
        _keep_statistics_in(module, gradients)
        outputs, labels = self._network.outputs, torch.from_numpy(batch.labels)
        loss = torch.zeros((), dtype=torch.float32, device="cpu")
        for output, logits in zip(outputs, module.logits(_nchw(batch), outputs), strict=True):
            loss = loss + output.weight * mean_loss(self._loss, logits, labels)
        self._execution.backward(loss, module, gradients)
        running = self._tensors.of(parameters)
        for name in self._fixed:
            gradients[name].zero_()
        for name in self._statistics:
            torch.sub(running[name], gradients[name], out=gradients[name])
        return loss.item()

    @torch.no_grad()
    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """Sum of the losses of the batch's images, and number of right classifications."""
        module = self._execution.module_of(parameters).eval()
        _keep_statistics_in(module, self._tensors.of(parameters))
        found, labels = module(_nchw(batch)), torch.from_numpy(batch.labels)
        if logits is not None:
            logits[:] = found.numpy()
        right = self._loss.right(found.numpy(), batch.labels)
        return sum_of_losses(self._loss, found, labels), right

    @torch.no_grad()
    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite in training; None when all are."""
        self._check_statistics(batch)
        module = self._execution.module_of(parameters).train()
        _keep_statistics_in(module, {})
        for name, values in module.steps(_nchw(batch), self._network.layers):
            if not torch.isfinite(values).all():
                return name
        return None

    def close(self) -> None:
        """Release the packed vectors."""
        self._execution.close()
        self._tensors.clear()

    def _check_statistics(self, batch: Batch) -> None:
        if self._fewest_pixels * len(batch.labels) < 2:
            raise NetworkError(
                f"network '{self._network.name}' normalises maps of one pixel, but the batch has "
                "one image: the variance of one value is not defined, give two images or more"
            )

    def _as_tensors(self, packed: FloatArray) -> Tensors:
        views = ParameterVector(self._network, packed).views
        return {name: torch.from_numpy(view) for name, view in views.items()}


def _keep_statistics_in(module: NetworkModule, tensors: Tensors) -> None:
    """Let normalisations keep running statistics in `tensors`, or none where it has no entry.

    With momentum 1 training leaves the statistics of the batch alone there.
    """
    for name, normalisation in module.normalisations().items():
        normalisation.momentum = 1.0
        normalisation.running_mean = tensors.get(f"{name}.running_mean")
        normalisation.running_var = tensors.get(f"{name}.running_variance")


def _fewest_normalised_pixels(network: Network) -> int:
    """Pixels of the smallest map that is normalised over the batch; 2 when none is."""
    maps = [
        network.shape_of(layer.name)
        for layer in network.layers
        if isinstance(layer, BatchNormalisation) and not layer.frozen
    ]
    return min((math.prod(shape[:-1]) for shape in maps), default=2)


def _nchw(batch: Batch) -> torch.Tensor:
    """The images as PyTorch's (N,C,H,W), which on these strides is its channels-last layout."""
    return torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2)
