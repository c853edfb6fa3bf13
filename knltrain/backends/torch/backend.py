"""PyTorch as a backend: the reference, and the baseline that the cpu backend has to beat."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.backends.cpu.backend import ViewCache
from knltrain.backends.loss import PLAIN, Loss
from knltrain.backends.torch.device_layout import DeviceLayout
from knltrain.backends.torch.devices import described, failures_told
from knltrain.backends.torch.execution import EagerExecution, Execution, Tensors
from knltrain.backends.torch.graphs import Graph, GraphedSteps
from knltrain.backends.torch.losses import class_weights, mean_loss, sum_of_losses
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.backends.torch.page_locked import PageLocked
from knltrain.backends.torch.prefetching import Prefetching
from knltrain.backends.torch.progress import Marking
from knltrain.backends.torch.streams import module_of
from knltrain.backends.torch.switches import Precision, Switches
from knltrain.clocks import Marks, Unobserved
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.interchange.to_torch import NetworkModule
from knltrain.network.layers import BatchNormalisation, Dropout, StochasticDepth
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.backends.region import Region
    from knltrain.backends.torch.regions import MarkedLayers

_MOST_BATCHES = 32
"""Images and labels of so many are locked into memory; a data pool has fewer."""


class TorchBackend(Backend):
    """A network as PyTorch modules, on the CPU with oneDNN kernels in channels-last layout.

    `execution` runs the modules, eagerly by default, on the device of `mirrors`, which must be its
    own. The number of threads is PyTorch's, and so the whole process's; what is drawn
    at random follows from the batch's key. With `precision` "bfloat16" layers compute by autocast,
    and the loss in float32; "tf32" lets an NVIDIA GPU round products. With `graph`, which makes
    one, steps are recorded and replayed. `deterministic` is described by `Switches`.
    """

    def __init__(
        self,
        network: Network,
        batch: int,
        threads: int,
        execution: Execution | None = None,
        loss: Loss = PLAIN,
        mirrors: Mirrors | None = None,
        precision: Precision = "float32",
        graph: Callable[[], Graph] | None = None,
        deterministic: bool = False,
    ) -> None:
        torch.set_num_threads(threads)
        self._network, self._batch, self._loss = network, batch, loss
        self._mirrors = Mirrors() if mirrors is None else mirrors
        self._mirrors.arrange(DeviceLayout.of(network))
        self._device, self._precision = self._mirrors.device, precision
        self._weights = class_weights(loss, self._device)
        self._execution = execution or EagerExecution(network, self._mirrors)
        self._switches = Switches(self._device, precision, deterministic)
        self._draws = any(isinstance(each, (Dropout, StochasticDepth)) for each in network.layers)
        self._tensors = ViewCache(self._views)
        self._batches = PageLocked(self._device, _MOST_BATCHES)
        self._coming = Prefetching(self._device)
        size = network.packed_size
        self._graphed = graph and GraphedSteps(size, self._mirrors, graph, self._compute)
        frozen = {
            layer.name
            for layer in network.layers
            if isinstance(layer, BatchNormalisation) and layer.frozen
        }
        statistics = [spec for spec in network.parameters if spec.is_statistic]
        self._statistics = [each.name for each in statistics if each.layer not in frozen]
        self._fixed = [each.name for each in statistics if each.layer in frozen]
        self._fewest_pixels = _fewest_normalised_pixels(network)
        self._observed: MarkedLayers | None = None

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """Mean loss over the batch, summed over the outputs by their weights.

        Its gradient overwrites `gradient`; that of a running statistic is (running - batch's).
        A device's parts of it are on the host when `ready` is called.
        """
        self._check_statistics(batch)
        with failures_told(self._device, len(batch.labels)):
            self._seed(int(batch.key[0]))
            if self._graphed is not None:
                found = self._coming.taken(_key(batch)) or self._here(batch)
                return self._graphed.loss_and_gradient(*found, parameters, gradient, ready)
            mirrors, images_labels = self._mirrors, self._there(batch)
            mirrors.load(parameters)
            by_parts = mirrors.are_apart and ready is not nobody_waits
            told = Marking(self._device, gradient.size) if by_parts else ready
            loss = self._compute(parameters, gradient, *images_labels, told)
            mirrors.store(gradient)
            if isinstance(told, Marking):
                mirrors.hand_over(gradient, mirrors.packed(gradient), told.marks, ready)
            return loss.item()

    def prefetch(self, batch: Batch) -> None:
        """Copy the batch to the device beside what is computed there."""
        if self._mirrors.are_apart:
            with failures_told(self._device, len(batch.labels)):
                self._coming.send(_key(batch), self._here(batch))

    def _compute(
        self,
        parameters: FloatArray,
        gradient: FloatArray,
        images: torch.Tensor,
        labels: torch.Tensor,
        ready: Ready,
    ) -> torch.Tensor:
        """The loss, on the device, by what of these vectors is there."""
        module = self._execution.module_of(parameters).train()
        gradients = self._tensors.of(gradient)
        self._mirrors.packed(gradient).zero_()
        _keep_statistics_in(module, gradients)
        outputs = self._network.outputs
        loss = torch.zeros((), dtype=torch.float32, device=self._device)
        observed = self._observed
        with self._computing():
            if observed is None:
                found = module.logits(images, outputs)
            else:
                found = observed.logits(module, images, outputs)
        for output, logits in zip(outputs, found, strict=True):
            loss = loss + output.weight * mean_loss(
                self._loss, logits.float(), labels, self._weights
            )
        if observed is not None:
            observed.lost()
        running = self._tensors.of(parameters)
        for name in self._fixed:
            gradients[name].zero_()
        for name in self._statistics:
            batches = gradients[name].data  # autograd has seen it, and does not read it
            torch.sub(running[name], batches, out=batches)
        self._execution.backward(loss, module, gradients, ready)
        if observed is not None:
            observed.ended()
        return loss.detach()

    @torch.no_grad()
    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """Sum of the losses of the batch's images, and number of right classifications."""
        with failures_told(self._device, len(batch.labels)):
            module = self._loaded(parameters).eval()
            _keep_statistics_in(module, self._tensors.of(parameters))
            images, labels = self._there(batch)
            with self._computing():
                found = module(images)
            found = found.float()
            told = found.cpu().numpy()
            losses = sum_of_losses(self._loss, found, labels)
        if logits is not None:
            logits[:] = told
        return losses, self._loss.right(told, batch.labels)

    @torch.no_grad()
    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite in training; None when all are."""
        self._check_statistics(batch)
        self._seed(int(batch.key[0]))
        module = self._loaded(parameters).train()
        _keep_statistics_in(module, {})
        with self._computing():
            for name, values in module.steps(self._there(batch)[0], self._network.layers):
                if not torch.isfinite(values).all():
                    return name
        return None

    @property
    def description(self) -> Mapping[str, object]:
        """The device, unless it is the host itself."""
        return {} if self._device.type == "cpu" else described(self._device)

    @property
    def regions(self) -> Sequence[Region]:
        """Each layer forward and backward, where modules run one by one on the host."""
        return () if self._layers is None else self._layers.regions

    def observe(self, marks: Marks) -> None:
        """Mark the end of each layer; that of a compiled, recorded or remote one is not known."""
        if self._layers is not None:
            self._layers.marks = marks
            self._observed = None if isinstance(marks, Unobserved) else self._layers

    @cached_property
    def _layers(self) -> MarkedLayers | None:
        one_by_one = type(self._execution) is EagerExecution and self._graphed is None
        if not one_by_one or self._device.type != "cpu":
            return None
        from knltrain.backends.torch.regions import MarkedLayers

        value_bytes = 2 if self._precision == "bfloat16" else 4
        return MarkedLayers(self._network, self._batch, self._loss, value_bytes)

    def close(self) -> None:
        """Release the packed vectors."""
        self._execution.close()
        if self._graphed is not None:
            self._graphed.clear()
        self._tensors.clear()
        self._coming.clear()
        self._batches.close()
        self._mirrors.close()
        self._switches.restore()

    def _seed(self, key: int) -> None:
        """Let what is drawn at random depend on this number alone."""
        if self._draws:
            torch.default_generator.manual_seed(key)
            if self._device.type != "cpu":
                module_of(self._device).manual_seed(key)

    def _loaded(self, parameters: FloatArray) -> NetworkModule:
        """The module of `parameters` with their current values."""
        module = self._execution.module_of(parameters)
        self._mirrors.load(parameters)
        return module

    def _computing(self) -> AbstractContextManager[object]:
        """What layers compute in."""
        if self._precision != "bfloat16":
            return nullcontext()
        # What is cast is not kept where the next step is a replay.
        return torch.autocast(
            self._device.type, torch.bfloat16, cache_enabled=self._graphed is None
        )

    def _there(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels on the device."""
        if (coming := self._coming.taken(_key(batch))) is not None:
            return coming
        images, labels = self._here(batch)
        device = self._device
        return images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

    def _here(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Images (N,C,H,W), in PyTorch's channels-last layout by their strides, and labels."""
        for each in (batch.images_nhwc, batch.labels):
            self._batches.lock(each)
        images = torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2)
        return images, torch.from_numpy(batch.labels)

    def _check_statistics(self, batch: Batch) -> None:
        if self._fewest_pixels * len(batch.labels) < 2:
            raise NetworkError(
                f"network '{self._network.name}' normalises maps of one pixel, but the batch has "
                "one image: the variance of one value is not defined, give two images or more"
            )

    def _views(self, packed: FloatArray) -> Tensors:
        views = ParameterVector(self._network, packed).views
        return {name: self._mirrors.view(packed, view) for name, view in views.items()}


def _key(batch: Batch) -> tuple[int, int]:
    """What tells a batch from the one that its memory had before."""
    return batch.images_nhwc.ctypes.data, int(batch.key[0])


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
