"""Operations that join or copy values: sums, products of channels, concatenations, padding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from vectorized_ops.implementations import Operations
from vectorized_ops.shapes.operation import (
    FLOAT_BYTES,
    Calls,
    Cost,
    OperationShape,
    TimedShape,
    by,
    passes,
)

__all__ = [
    "AdditionShape",
    "ChannelProductShape",
    "ConcatenationShape",
    "PaddingShape",
]


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
    """Channels behind each other, to maps (N, H, W, C) or vectors (N, C)."""

    kind: ClassVar[str] = "concatenation"

    outputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A copy, where the inputs are not written there at once."""
        cost = passes(math.prod(self.outputs), 0, 2)
        return dict.fromkeys(("forward", "backward_data"), cost)

    def __str__(self) -> str:
        return by(self.outputs[1:])


@dataclass(frozen=True, slots=True)
class PaddingShape(TimedShape):
    """Maps (N, H, W, C) amid lines above and below, and pixels left and right: `sides`."""

    kind: ClassVar[str] = "padding"

    inputs: tuple[int, int, int, int]
    sides: tuple[int, int, int, int]

    @property
    def outputs(self) -> tuple[int, int, int, int]:
        """The padded maps."""
        images, height, width, channels = self.inputs
        above, below, left, right = self.sides
        return images, height + above + below, width + left + right, channels

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A read of the maps, a write of the padded ones; back a read and a write of the maps."""
        values, padded = math.prod(self.inputs), math.prod(self.outputs)
        return {
            "forward": Cost(0, FLOAT_BYTES * (values + padded)),
            "backward_data": passes(values, 0, 2),
        }

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand

        operation = operations.padding(self.sides)
        values, padded = operand(operations, self.inputs), operand(operations, self.outputs)
        runs = {
            "forward": partial(operation.forward, values, padded),
            "backward_data": partial(operation.backward, padded, values),
        }
        return Calls(runs)

    def __str__(self) -> str:
        return f"{by(self.inputs[1:])} by {self.sides}"
