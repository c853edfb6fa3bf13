"""Batch normalisation that owns its parameters, its statistics and the sum of their gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np

from knltrain.communication.reduction import Reducer
from knltrain.distributed_ops.gradient import GradientHandle
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import BACKWARD_DATA, BACKWARD_WEIGHTS, FORWARD
from knltrain.distributed_ops.weighted import WeightedLayer
from knltrain.errors import NetworkError
from vectorized_ops.epilogue import IDENTITY
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import BatchNormalisationShape

Shape = tuple[int, int, int, int]


@final
class BatchNormalisation(WeightedLayer):
    """Normalises values of `shape` (N, H, W, C); scale, shift and running statistics (C,).

    Each rank normalises by the statistics of its own images, as with DistributedDataParallel. The
    running statistics move by `statistics_rate` of their distance to the mean of all ranks'
    statistics. That mean is summed with the gradient, so all ranks keep the same ones. Raises
    NetworkError for fewer than two values per channel.
    """

    kind = "batch normalisation"

    def __init__(
        self,
        name: str,
        shape: Shape,
        reducer: Reducer,
        options: Options | None = None,
        *,
        epsilon: float = 1e-5,
        statistics_rate: float = 0.1,
    ) -> None:
        images, height, width, channels = shape
        count = images * height * width
        if count < 2:
            raise NetworkError(
                f"layer '{name}' of shape {shape} has {count} value per channel: expected two or "
                "more, the variance of one is not defined; give more images"
            )
        names = "scale", "shift", "running_mean", "running_variance"
        average = (options or Options()).average
        rate = statistics_rate if average else statistics_rate / reducer.ranks
        statistics = {"running_mean": rate, "running_variance": rate}
        super().__init__(name, dict.fromkeys(names, (channels,)), reducer, options, statistics)
        self._shape = BatchNormalisationShape(shape, epsilon)
        self.inputs, self.outputs = (shape,), shape
        self._unbiased = np.float32(count / (count - 1))
        self._operation: Any = self._operations.batch_normalisation(*shape, epsilon)
        self.parameters["scale"].fill(1)
        self.parameters["running_variance"].fill(1)
        self._mean, self._variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)
        self._out, self._inputs_gradient = self._array(*shape), self._array(*shape)

    def forward(self, values: AnyArray, training: bool = True) -> AnyArray:
        """Return normalised values; by the running statistics when not `training`."""
        self._check("values", values, self._out)
        with self.times[FORWARD].computing():
            mean, variance = self._mean, self._variance
            if training:
                self._operation.statistics(values, mean, variance)
            else:
                mean = self.parameters["running_mean"]
                variance = self.parameters["running_variance"]
            scale, shift = self.parameters["scale"], self.parameters["shift"]
            self._operation.forward(values, mean, variance, scale, shift, self._out)
        return self._out

    def backward_weights(self, values: AnyArray, gradient: AnyArray) -> GradientHandle:
        """Compute the gradients from the values of the last `forward`, in training; begin the sum.

        One kernel reads both arrays for all gradients, so that of the values is computed here, too.
        Raises NetworkError while the last sum is pending.
        """
        self._check("values", values, self._out)
        self._check("a gradient", gradient, self._out)
        return self._reduced(self._pieces(values, gradient))

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the values, which `backward_weights` has computed."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            return self._inputs_gradient

    @property
    def shape(self) -> BatchNormalisationShape:
        """The shape of the operation, for N images."""
        return self._shape

    def _computed_by(self, direction: str) -> tuple[str, ...]:
        """Return the keys of the shape's costs; `backward_weights` does the whole backward pass."""
        found = {FORWARD: ("statistics", "forward"), BACKWARD_WEIGHTS: ("backward_data",)}
        return found.get(direction, ())

    def _pieces(self, values: AnyArray, gradient: AnyArray) -> Iterator[tuple[int, int]]:
        parameters, out = self.parameters, self.gradients
        self._operation.backward(
            values, gradient, self._mean, self._variance, parameters["scale"], parameters["shift"],
            IDENTITY, out["scale"], out["shift"], self._inputs_gradient,
        )  # fmt: skip
        np.subtract(parameters["running_mean"], self._mean, out=out["running_mean"])
        distance = out["running_variance"]
        np.multiply(self._variance, self._unbiased, out=distance)
        np.subtract(parameters["running_variance"], distance, out=distance)
        yield 0, self._packed.size
