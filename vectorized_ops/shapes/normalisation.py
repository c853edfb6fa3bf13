"""Normalisations: of a channel over the batch, and of a value among its neighbours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from vectorized_ops.implementations import Operations
from vectorized_ops.shapes.operation import (
    Calls,
    Cost,
    TimedShape,
    by,
    passes,
)

__all__ = [
    "BatchNormalisationShape",
    "LayerNormalisationShape",
    "LocalResponseShape",
    "WithinChannelShape",
]


@dataclass(frozen=True, slots=True)
class BatchNormalisationShape(TimedShape):
    """Of maps (N, H, W, C), by the statistics of the batch; `epsilon` is added to the variance."""

    kind: ClassVar[str] = "batch normalisation"

    inputs: tuple[int, int, int, int]
    epsilon: float = 1e-5

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Two sums, then a product and two additions per value; backward about 8 operations.

        Backward reads the values and the gradient twice, and writes once.
        """
        values = math.prod(self.inputs)
        return {
            "statistics": passes(values, 2, 1),
            "forward": passes(values, 3, 2),
            "backward_data": passes(values, 8, 5),
        }

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.epilogue import RELU
        from vectorized_ops.shapes.arrays import channel_values, operand

        operation = operations.batch_normalisation(*self.inputs, self.epsilon)
        values, out = operand(operations, self.inputs), operand(operations, self.inputs)
        mean, shift, *sums = channel_values(0.0, self.inputs[3], 4)
        variance, scale = channel_values(1.0, self.inputs[3], 2)
        state = mean, variance, scale, shift
        runs = {
            "statistics": partial(operation.statistics, values, mean, variance),
            "forward": partial(operation.forward, values, *state, out, None, RELU),
            "backward_data": partial(operation.backward, values, out, *state, RELU, *sums, out),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class LayerNormalisationShape(TimedShape):
    """Of maps (N, H, W, C) or vectors (N, C) over the channels of each pixel."""

    kind: ClassVar[str] = "layer normalisation"

    inputs: tuple[int, ...]
    epsilon: float = 1e-5

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Two sums, then a product and two additions per value; backward about 16 operations."""
        values = math.prod(self.inputs)
        return {"forward": passes(values, 7, 2), "backward_data": passes(values, 16, 3)}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import channel_values, operand

        operation = operations.layer_normalisation(self.epsilon)
        values, out, gradient = (operand(operations, self.inputs) for _ in range(3))
        scale, shift, *sums = channel_values(1.0, self.inputs[-1], 4)
        runs = {
            "forward": partial(operation.forward, values, scale, shift, out),
            "backward_data": partial(operation.backward, values, out, scale, *sums, gradient),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class LocalResponseShape(TimedShape):
    """Of maps (N, H, W, C) across `size` neighbouring channels."""

    kind: ClassVar[str] = "local response"

    inputs: tuple[int, int, int, int]
    size: int
    alpha: float
    beta: float
    bias: float

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Squares, their sum and a power: about `size` + 7 operations per value, backward twice."""
        values, flops = math.prod(self.inputs), self.size + 7
        return {
            "forward": passes(values, flops, 2),
            "backward_data": passes(values, 2 * flops, 3),
        }

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        make = operations.local_response_normalisation
        if make is None:
            return None
        operation = make(self.size, self.alpha, self.beta, self.bias)
        values, out, gradient = (operand(operations, self.inputs) for _ in range(3))
        runs = {
            "forward": partial(operation.forward, values, out),
            "backward_data": partial(operation.backward, values, out, gradient),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class WithinChannelShape(TimedShape):
    """Of maps (N, H, W, C) within `side` x `side` pixels of a channel."""

    kind: ClassVar[str] = "within channel"

    inputs: tuple[int, int, int, int]
    side: int
    alpha: float
    beta: float

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Squares, their sums along lines and columns, and a power; backward twice."""
        values, flops = math.prod(self.inputs), 2 * self.side + 7
        return {
            "forward": passes(values, flops, 2),
            "backward_data": passes(values, 2 * flops, 3),
        }

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        make = operations.within_channel_normalisation
        if make is None:
            return None
        operation = make(self.side, self.alpha, self.beta)
        values, out, gradient = (operand(operations, self.inputs) for _ in range(3))
        runs = {
            "forward": partial(operation.forward, values, out),
            "backward_data": partial(operation.backward, values, out, gradient),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])
