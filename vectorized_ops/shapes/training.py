"""Operations of training alone: the loss, and the update of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vectorized_ops.shapes.operation import Cost, OperationShape, passes

__all__ = ["SgdShape", "SoftmaxCrossEntropyShape"]


@dataclass(frozen=True, slots=True)
class SgdShape(OperationShape):
    """A step of SGD with momentum on so many `values`."""

    kind: ClassVar[str] = "sgd"

    values: int

    @property
    def costs(self) -> Mapping[str, Cost]:
        """4 operations, 3 reads and 2 writes per value."""
        return {"update": passes(self.values, 4, 5)}

    def __str__(self) -> str:
        return str(self.values)


@dataclass(frozen=True, slots=True)
class SoftmaxCrossEntropyShape(OperationShape):
    """The loss of logits (N, classes), and its gradient."""

    kind: ClassVar[str] = "softmax cross-entropy"

    images: int
    classes: int

    @property
    def costs(self) -> Mapping[str, Cost]:
        """About 5 operations per value: largest, exponential, sum, quotient; a read and a write."""
        return {"forward": passes(self.images * self.classes, 5, 2)}

    def __str__(self) -> str:
        return str(self.classes)
