"""Dense layers: products of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vectorized_ops.implementations import Operations
from vectorized_ops.shapes.operation import (
    FLOAT_BYTES,
    Calls,
    Cost,
    TimedShape,
)

__all__ = ["DenseShape"]


@dataclass(frozen=True, slots=True)
class DenseShape(TimedShape):
    """A dense layer of `units` outputs for `images` vectors of `inputs` values."""

    kind: ClassVar[str] = "dense"
    is_product: ClassVar[bool] = True

    images: int
    inputs: int
    units: int

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Any direction: 2 N I O operations; inputs, weights and outputs once."""
        moved = self.inputs * self.units + self.images * (self.inputs + self.units)
        cost = Cost(2 * self.images * self.inputs * self.units, FLOAT_BYTES * moved)
        return dict.fromkeys(("forward", "backward_data", "backward_weights"), cost)

    def calls(self, operations: Operations) -> Calls | None:
        """See `TimedShape.calls`."""
        from vectorized_ops.shapes.arrays import operand, weighted_calls

        values = operand(operations, (self.images, self.inputs))
        out = operand(operations, (self.images, self.units))
        made = operations.dense(self.images, self.inputs, self.units)
        return weighted_calls(made, values, out, (self.units, self.inputs), self.units)

    def __str__(self) -> str:
        return f"{self.inputs} -> {self.units}"
