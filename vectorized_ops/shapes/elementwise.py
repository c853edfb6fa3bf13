"""Operations on each value by itself: activations, dropout, joins and copies."""

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
    "AdditionShape",
    "AffineShape",
    "ChannelProductShape",
    "ConcatenationShape",
    "CopyShape",
    "DropoutShape",
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
class AdditionShape(TimedShape):
    """The sum of two arrays of this shape, images first."""

    kind: ClassVar[str] = "addition"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Its gradient is that of either input, and moves nothing."""
        return {"forward": passes(math.prod(self.inputs), 1, 3)}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        left, right, out = (operand(operations, self.inputs) for _ in range(3))
        return Calls({"forward": partial(operations.add, left, right, out, True)})

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class ChannelProductShape(TimedShape):
    """Each channel of maps (N, H, W, C) times a factor of the image (N, C)."""

    kind: ClassVar[str] = "channel product"

    inputs: tuple[int, int, int, int]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Factors are not counted; backward gives the gradients of maps and of factors."""
        values = math.prod(self.inputs)
        return {"forward": passes(values, 1, 2), "backward_data": passes(values, 3, 5)}

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        operation = operations.channel_product()
        maps, out, gradient = (operand(operations, self.inputs) for _ in range(3))
        factors, slopes = (operand(operations, (self.inputs[0], self.inputs[3])) for _ in range(2))

        def backward() -> None:
            operation.backward_maps(out, factors, gradient)
            operation.backward_factors(out, maps, slopes)

        return Calls(
            {"forward": partial(operation.forward, maps, factors, out), "backward_data": backward}
        )

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class ConcatenationShape(OperationShape):
    """Channels behind each other, to maps (N, H, W, C)."""

    kind: ClassVar[str] = "concatenation"

    outputs: tuple[int, int, int, int]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A copy, where the inputs are not written there at once."""
        cost = passes(math.prod(self.outputs), 0, 2)
        return dict.fromkeys(("forward", "backward_data"), cost)

    def __str__(self) -> str:
        return by(self.outputs[1:])


@dataclass(frozen=True, slots=True)
class CopyShape(OperationShape):
    """An array of this shape, images first, brought into another order."""

    kind: ClassVar[str] = "copy"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A read and a write."""
        cost = passes(math.prod(self.inputs), 0, 2)
        return dict.fromkeys(("forward", "backward_data"), cost)

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
