"""knltrain's own CPU backend."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from knltrain.backends.backend import Backend, FloatArray
from knltrain.backends.by_address import ByAddress
from knltrain.backends.cpu.plan import Plan
from knltrain.backends.cpu.stages import Run, Views
from knltrain.backends.cpu.tensor import Tensor
from knltrain.data.dataset import Batch
from knltrain.errors import NetworkError
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations


class CpuBackend(Backend):
    """Runs a static plan over `vectorized_ops`; a step of "numba" allocates no array.

    `implementation` is one of vectorized_ops.implementations.IMPLEMENTATIONS; without `winograd`
    "numba" convolves by direct sums alone. Raises NetworkError for an implementation that is not
    there or does not take a layer of the network, and for a batch that the plan was not made for.
    """

    def __init__(
        self,
        network: Network,
        batch: int,
        threads: int,
        implementation: str,
        winograd: bool = True,
    ) -> None:
        self._network, self._batch = network, batch
        self._gaps = _gaps(network)
        self._views = ByAddress(self._named)
        try:
            self._operations = operations(implementation, winograd)
            self._operations.use_threads(threads)
            self._plan = Plan(network, batch, self._operations)
        except OperationError as error:
            raise NetworkError(f"network '{network.name}' on the cpu backend: {error}") from error

    def loss_and_gradient(
        self, batch: Batch, parameters: FloatArray, gradient: FloatArray
    ) -> float:
        """Mean softmax cross-entropy over the batch, summed over the outputs by their weights."""
        run = self._run(batch, parameters, self._views.of(gradient), training=True)
        self._load(batch)
        for stage in self._plan.stages:
            stage.forward(run)
        loss = sum(self._loss(batch, *output) for output in self._plan.outputs)
        for stage in reversed(self._plan.stages):
            if stage.output.gradient is not None:
                stage.backward(run)
        gradient[self._gaps] = 0
        return loss / len(batch.labels)

    def evaluate(self, batch: Batch, parameters: FloatArray) -> tuple[float, int]:
        """Sum of the images' losses at the first output, and how many it classifies right."""
        self._forward(batch, parameters)
        output, _ = self._plan.outputs[0]
        logits = output.values.array[: len(batch.labels)]
        correct = np.count_nonzero(logits.argmax(axis=1) == batch.labels)
        return self._loss(batch, output), int(correct)

    def first_non_finite(self, batch: Batch, parameters: FloatArray) -> str | None:
        """Name of the first layer whose output is not finite in training; None when all are."""
        run = self._run(batch, parameters, {}, training=True)
        self._load(batch)
        for stage in self._plan.stages:
            stage.forward(run)
            if not np.isfinite(stage.output.values.array[: len(batch.labels)]).all():
                return stage.name
        return None

    def close(self) -> None:
        """Let go of the packed vectors and the plan's memory."""
        self._views.clear()
        self._plan.release()

    def _forward(self, batch: Batch, parameters: FloatArray) -> None:
        run = self._run(batch, parameters, {}, training=False)
        self._load(batch)
        for stage in self._plan.evaluation:
            stage.forward(run)

    def _run(self, batch: Batch, parameters: FloatArray, gradients: Views, training: bool) -> Run:
        views = self._views.of(parameters)
        return Run(views, gradients, len(batch.labels), training, int(batch.key[0]))

    def _load(self, batch: Batch) -> None:
        images = len(batch.labels)
        expected = images, *self._network.input_shape
        if not 0 < images <= self._batch or batch.images_nhwc.shape != expected:
            raise NetworkError(
                f"a batch of {images} labels and images {batch.images_nhwc.shape} was given to "
                f"network '{self._network.name}', compiled for 1 to {self._batch} images of "
                f"{self._network.input_shape}"
            )
        self._operations.load_images(batch.images_nhwc, self._plan.input.values.array)

    def _loss(self, batch: Batch, output: Tensor, weight: float = 1.0) -> float:
        assert output.gradient is not None
        return self._operations.softmax_cross_entropy(
            output.values.array, batch.labels, output.gradient.array, weight=weight
        )

    def _named(self, packed: FloatArray) -> Views:
        return ParameterVector(self._network, packed).views


def _gaps(network: Network) -> npt.NDArray[np.intp]:
    """Return the places of the packed vector that lie between the parameters."""
    between = np.ones(network.packed_size, np.bool_)
    for spec in network.parameters:
        between[spec.offset : spec.offset + spec.size] = False
    return np.flatnonzero(between)
