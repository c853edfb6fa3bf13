"""knltrain's own CPU backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, final

import numpy as np
import numpy.typing as npt

from knltrain.backends.backend import Backend, Ready, nobody_waits
from knltrain.backends.cpu.lowering import NO_CHOICE, Algorithms
from knltrain.backends.cpu.micro_batch import MicroBatch, check_micro_batch, make_passes
from knltrain.backends.cpu.stages import Views
from knltrain.backends.loss import PLAIN, Loss
from knltrain.clocks import Marks
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.vectors import FloatArray
from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations

if TYPE_CHECKING:
    from knltrain.backends.region import Region


class CpuBackend(Backend):
    """Runs a static plan over `vectorized_ops`; a step of "numba" allocates no array.

    `implementation` is one of vectorized_ops.implementations.IMPLEMENTATIONS; without `winograd`
    "numba" convolves by direct sums alone; `algorithms` are those of some layers, and those of
    instructions that the processor lacks are computed without them if it `emulates`. A batch larger
    than `micro_batch` goes through the plan in micro-batches of so many images; their mean loss and
    gradient are those of the batch within rounding.

    Raises NetworkError for an unknown implementation, for a layer that it does not support, and for
    a batch that the plan was not made for; ConfigError for a micro-batch that would change what a
    network computes.
    """

    def __init__(
        self,
        network: Network,
        batch: int,
        threads: int,
        implementation: str,
        winograd: bool = True,
        micro_batch: MicroBatch = 0,
        loss: Loss = PLAIN,
        algorithms: Algorithms = NO_CHOICE,
        precision: str = "float32",
        emulates: bool = False,
    ) -> None:
        check_micro_batch(network, batch, micro_batch)
        self._network, self._batch, self._threads = network, batch, threads
        self._gaps, self._frozen = _gaps(network), _without_gradient(network)
        self._views, self._rehearsed = ViewCache(self._named), 0
        try:
            self._operations = operations(implementation, winograd, precision, emulates)
            self._operations.use_threads(threads)
            self._passes, self._compared = make_passes(
                network,
                batch,
                micro_batch,
                self._operations,
                f"winograd={winograd}"
                + (f" algorithms={algorithms}" if algorithms else "")
                + f" {precision}" * (precision != "float32"),
                loss,
                algorithms,
            )
        except OperationError as error:
            raise NetworkError(f"network '{network.name}' on the cpu backend: {error}") from error

    def loss_and_gradient(
        self,
        batch: Batch,
        parameters: FloatArray,
        gradient: FloatArray,
        ready: Ready = nobody_waits,
    ) -> float:
        """Mean loss over the batch, summed over the outputs by their weights.

        `ready` is called after each layer.
        """
        self._check(batch)
        views = self._views.of(parameters), self._views.of(gradient)
        gradient[self._gaps] = 0
        for part in self._frozen:
            gradient[part] = 0
        return self._passes.loss_and_gradient(batch, views[0], gradient, views[1], ready)

    def rehearse(self, batch: Batch, parameters: FloatArray, gradient: FloatArray) -> None:
        """Load or compile the kernels, without a step where that can be done.

        Other vectors, and no more images than before, need views alone.
        """
        self._check(batch)
        step = partial(self.loss_and_gradient, batch, parameters, gradient)
        if self._operations.prepare is None:
            step()
        elif len(batch.labels) <= self._rehearsed:
            for vector in (parameters, gradient):
                self._views.of(vector)
        else:

            def work() -> None:
                step()
                self._passes.load()

            self._operations.prepare(work)
            self._passes.forget()
            self._rehearsed = len(batch.labels)

    def evaluate(
        self, batch: Batch, parameters: FloatArray, logits: FloatArray | None = None
    ) -> tuple[float, int]:
        """Sum of the images' losses at the first output, and number of right classifications."""
        self._check(batch)
        return self._passes.evaluate(batch, self._views.of(parameters), logits)

    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite in training; None when all are."""
        self._check(batch)
        return self._passes.first_non_finite(batch, self._views.of(parameters))

    @property
    def description(self) -> dict[str, object]:
        """The plan: its memory, its micro-batch, and the algorithms chosen by layer and direction.

        `seconds` are the measured times of each candidate; none where no measurement was needed.
        Layers with one algorithm alone are left out.
        """
        plan = self._passes.plan
        return {
            "implementation": self._operations.name,
            "precision": self._operations.precision,
            "threads": self._threads,
            "batch": self._batch,
            "micro_batch": {"images": self._passes.images, "seconds": self._compared},
            "arena_bytes": plan.arena_bytes,
            "layers": {stage.name: stage.choices for stage in plan.stages if stage.choices},
        }

    @property
    def regions(self) -> Sequence[Region]:
        """Each stage in each direction that is computed, and what is beside them."""
        from knltrain.backends.cpu.regions import regions_of

        images = min(self._batch, self._passes.images)
        full, rest = divmod(self._batch, images)
        slices = [images] * full + ([rest] if rest else [])
        return regions_of(self._passes, self._network, slices, self._operations.name)

    def observe(self, marks: Marks) -> None:
        """Mark the end of each stage in each direction."""
        self._passes.marks = marks

    def close(self) -> None:
        """Let go of the packed vectors and the plan's memory."""
        self._views.clear()
        self._passes.release()

    def _check(self, batch: Batch) -> None:
        images = len(batch.labels)
        expected = images, *self._network.input_shape
        if not 0 < images <= self._batch or batch.images_nhwc.shape != expected:
            raise NetworkError(
                f"a batch of {images} labels and images {batch.images_nhwc.shape} was given to "
                f"network '{self._network.name}', compiled for 1 to {self._batch} images of "
                f"{self._network.input_shape}"
            )
        if batch.labels.shape[1:] not in ((), self._network.output_shape):
            raise NetworkError(
                f"labels {batch.labels.shape} were given to network '{self._network.name}' with "
                f"outputs {self._network.output_shape}: expected classes ({images},), or a target "
                "for each output"
            )

    def _named(self, packed: FloatArray) -> Views:
        return ParameterVector(self._network, packed).views


def _gaps(network: Network) -> npt.NDArray[np.intp]:
    """Return the gaps of the packed vector between parameters."""
    between = np.ones(network.packed_size, np.bool_)
    for spec in network.parameters:
        between[spec.offset : spec.offset + spec.size] = False
    return np.flatnonzero(between)


def _without_gradient(network: Network) -> list[slice]:
    """Return the frozen parameters whose gradient no stage computes."""
    return [
        slice(spec.offset, spec.offset + spec.size)
        for spec in network.parameters
        if not network.needs_gradient(spec.layer)
    ]


Made = TypeVar("Made")

REMEMBERED_VECTORS = 8


@final
class ViewCache(Generic[Made]):
    """Cached results of `make` for the latest vectors, by their addresses.

    The vectors are kept alive, so that no other vector can have the same address.
    """

    def __init__(self, make: Callable[[FloatArray], Made]) -> None:
        self._make = make
        self._made: dict[object, tuple[FloatArray, Made]] = {}

    def of(self, vector: FloatArray) -> Made:
        """Return the cached result for the memory of `vector`, or make it."""
        place = vector.ctypes.data, vector.shape, vector.strides, vector.dtype
        if place not in self._made:
            made = self._make(vector)
            if len(self._made) == REMEMBERED_VECTORS:
                del self._made[next(iter(self._made))]
            self._made[place] = vector, made
        return self._made[place][1]

    def clear(self) -> None:
        """Release all vectors and results."""
        self._made.clear()
