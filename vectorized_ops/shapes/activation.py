"""Operations on each value by itself: activation functions, affine ones, dropout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from vectorized_ops.implementations import Operations
from vectorized_ops.shapes.operation import (
    Calls,
    Cost,
    OperationShape,
    TimedShape,
    by,
    passes,
)

__all__ = [
    "ACTIVATION_FUNCTIONS",
    "ActivationShape",
    "AffineShape",
    "DropoutShape",
    "ParametricRectifierShape",
    "RectifierShape",
]


ACTIVATION_FUNCTIONS: Final = (
    "gelu",
    "gelu_tanh",
    "hard_sigmoid",
    "hard_swish",
    "sigmoid",
    "silu",
    "tanh",
)


"""The names of `vectorized_ops.reference.activation.FUNCTIONS`, in its order."""


@dataclass(frozen=True, slots=True)
class ActivationShape(TimedShape):
    """A smooth `function` of arrays of this shape, images first."""

    kind: ClassVar[str] = "activation"

    inputs: tuple[int, ...]
    function: str

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Counted as an operation per value; a read and a write, backward a read more."""
        values = math.prod(self.inputs)
        return {"forward": passes(values, 1, 2), "backward_data": passes(values, 1, 3)}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        operation = operations.activation(self.function)
        values, out, gradient = (operand(operations, self.inputs) for _ in range(3))
        runs = {
            "forward": partial(operation.forward, values, out),
            "backward_data": partial(operation.backward, out, values, gradient),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return f"{by(self.inputs[1:])} {self.function}"


@dataclass(frozen=True, slots=True)
class AffineShape(TimedShape):
    """factor * x + offset of arrays of this shape, images first."""

    kind: ClassVar[str] = "affine"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A product and a sum per value, backward a product; a read and a write."""
        values = math.prod(self.inputs)
        return {"forward": passes(values, 2, 2), "backward_data": passes(values, 1, 2)}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        operation = operations.affine(0.5, 0.25)
        values, out = (operand(operations, self.inputs) for _ in range(2))
        runs = {
            "forward": partial(operation.forward, values, out),
            "backward_data": partial(operation.backward, out, values),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class DropoutShape(TimedShape):
    """Dropout of arrays of this shape, images first, with probability `rate`.

    `per_image` drops all values of an image or none.
    """

    kind: ClassVar[str] = "dropout"

    inputs: tuple[int, ...]
    rate: float
    per_image: bool = False

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A product per value, but for the generator's; a read and a write."""
        cost = passes(math.prod(self.inputs), 1, 2)
        return dict.fromkeys(("forward", "backward_data"), cost)

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        if operations.dropout is None:
            return None
        operation = operations.dropout(self.rate, self.per_image)
        values, out = (operand(operations, self.inputs) for _ in range(2))
        runs = {
            "forward": partial(operation.forward, values, out, 1),
            "backward_data": partial(operation.backward, out, values, 1),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class ParametricRectifierShape(TimedShape):
    """A rectifier with a slope for each channel, images first."""

    kind: ClassVar[str] = "parametric rectifier"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A product per value; a read and a write. Backward a sum and a product more, and a read.

        The gradient of the slopes is part of it.
        """
        values = math.prod(self.inputs)
        return {"forward": passes(values, 1, 2), "backward_data": passes(values, 3, 3)}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import channel_values, operand

        operation = operations.parametric_rectifier()
        values, out, gradient = (operand(operations, self.inputs) for _ in range(3))
        slopes, sums = channel_values(0.25, self.inputs[-1], 2)
        runs = {
            "forward": partial(operation.forward, values, slopes, out),
            "backward_data": partial(operation.backward, values, out, slopes, sums, gradient),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class RectifierShape(OperationShape):
    """A rectifier of arrays of this shape, images first."""

    kind: ClassVar[str] = "rectifier"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """An operation per value; a read and a write, backward a read more."""
        values = math.prod(self.inputs)
        return {"forward": passes(values, 1, 2), "backward_data": passes(values, 1, 3)}

    def __str__(self) -> str:
        return by(self.inputs[1:])
