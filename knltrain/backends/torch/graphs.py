"""A training step as a graph: recorded once, then replayed without Python and its launches.

A graph computes with the memory that it was recorded with. So images, labels, parameters and
gradient have places of their own, which are filled before a replay and read after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch

from knltrain.backends.backend import Ready, nobody_waits
from knltrain.backends.torch.mirrors import Mirrors
from knltrain.backends.torch.progress import Marking, Marks
from knltrain.errors import ConfigError, DeviceError
from knltrain.vectors import FloatArray
from vectorized_ops.layout import aligned_zeros

_WARM_UPS = 3
"""Steps before a capture, in which libraries choose kernels and allocate what they need."""

Compute = Callable[[FloatArray, FloatArray, torch.Tensor, torch.Tensor, Ready], torch.Tensor]
"""The loss, a scalar, by parameters, of images (N,C,H,W) and labels; writes the gradient."""


class Graph(ABC):
    """Something that runs operations of PyTorch again, on the same memory."""

    @abstractmethod
    def record(self, run: Callable[[], None]) -> None:
        """Record what `run` does; what it computes, and draws at random, does not count."""

    @abstractmethod
    def replay(self) -> None:
        """Do it."""


@final
class CudaGraph(Graph):
    """A CUDA graph, captured on a stream of its own; graphs of one `pool` share their memory."""

    def __init__(self, device: torch.device, pool: Any) -> None:
        self._device, self._pool = device, pool
        self._graph = torch.cuda.CUDAGraph()

    def record(self, run: Callable[[], None]) -> None:
        """Warm up and capture; DeviceError for what cannot be captured."""
        drawn = torch.cuda.get_rng_state(self._device)
        current = torch.cuda.current_stream(self._device)
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                run()
        torch.cuda.set_rng_state(drawn, self._device)
        try:
            # Other threads may allocate meanwhile, as those of a data pool.
            with torch.cuda.graph(
                self._graph, self._pool, stream, capture_error_mode="thread_local"
            ):
                run()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise DeviceError(
                f"{self._device}: a step cannot be captured as a CUDA graph ({error}); set "
                "backend.graphs = false"
            ) from error
        current.wait_stream(stream)

    def replay(self) -> None:
        """Launch it."""
        self._graph.replay()


@dataclass(slots=True)
class _Step:
    images: torch.Tensor
    labels: torch.Tensor
    loss: torch.Tensor
    graph: Graph
    marks: Marks = field(default_factory=list)


@final
class GraphedSteps:
    """Steps of `compute` as graphs that `make` makes, one for each shape of images and labels.

    `compute` gets vectors of the graphs' own, with `size` values; on the device of `mirrors` they
    have the values of the caller's.
    """

    def __init__(
        self, size: int, mirrors: Mirrors, make: Callable[[], Graph], compute: Compute
    ) -> None:
        self._mirrors, self._make, self._compute = mirrors, make, compute
        self._parameters, self._gradient = aligned_zeros((size,)), aligned_zeros((size,))
        self._steps: dict[object, _Step] = {}
        for vector in (self._parameters, self._gradient):
            mirrors.follow(vector)

    def loss_and_gradient(
        self,
        images: torch.Tensor,
        labels: torch.Tensor,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """The loss of a batch; `gradient` is overwritten, and `ready` told of its parts."""
        self._mirrors.load_into(self._mirrors.packed(self._parameters), parameters)
        key = images.shape, labels.shape, labels.dtype
        if key not in self._steps:
            self._steps[key] = self._recorded(images, labels)
        step = self._steps[key]
        _fill(step, images, labels)
        step.graph.replay()
        found = self._mirrors.packed(self._gradient)
        self._mirrors.store_from(found, gradient)
        if ready is not nobody_waits:
            self._mirrors.hand_over(gradient, found, step.marks, ready)
        return step.loss.item()

    def clear(self) -> None:
        """Release all graphs."""
        self._steps.clear()

    def _recorded(self, images: torch.Tensor, labels: torch.Tensor) -> _Step:
        device = self._mirrors.device
        here = torch.empty_like(images, device=device), torch.empty_like(labels, device=device)
        loss = torch.zeros((), dtype=torch.float32, device=device)
        step = _Step(*here, loss, self._make())
        _fill(step, images, labels)
        step.graph.record(lambda: self._run(step))
        return step

    def _run(self, step: _Step) -> None:
        marking = Marking(self._mirrors.device, len(self._gradient), in_graph=True)
        loss = self._compute(self._parameters, self._gradient, step.images, step.labels, marking)
        step.marks = marking.marks
        step.loss.copy_(loss)


def cuda_graphs(device: torch.device, wanted: bool | str) -> Callable[[], Graph] | None:
    """What makes CUDA graphs of a device, which share their memory; None where there are none.

    Raises ConfigError as `has_graphs` does.
    """
    if not has_graphs(device, wanted):
        return None
    pool = torch.cuda.graph_pool_handle()
    return lambda: CudaGraph(device, pool)


def has_graphs(device: torch.device, wanted: bool | str) -> bool:
    """Whether steps on a device become graphs: "auto" wants them on NVIDIA GPUs.

    Raises ConfigError where they are wanted on other devices.
    """
    possible = device.type == "cuda" and torch.version.hip is None
    if wanted is True and not possible:
        raise ConfigError(
            f"backend.graphs = true on the device '{device}': CUDA graphs are of NVIDIA GPUs; "
            'expected graphs = "auto" or false'
        )
    return possible and bool(wanted)


def _fill(step: _Step, images: torch.Tensor, labels: torch.Tensor) -> None:
    step.images.copy_(images, non_blocking=True)
    step.labels.copy_(labels, non_blocking=True)
