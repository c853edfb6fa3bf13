"""Operations that are bound by memory, value by value or channel by channel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vectorized_ops.shapes.operation import Cost, OperationShape, by, passes


@dataclass(frozen=True, slots=True)
class BatchNormalisationShape(OperationShape):
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

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class LocalResponseShape(OperationShape):
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


@dataclass(frozen=True, slots=True)
class DropoutShape(OperationShape):
    """Dropout of arrays of this shape, images first, with probability `rate`."""

    kind: ClassVar[str] = "dropout"

    inputs: tuple[int, ...]
    rate: float

    @property
    def costs(self) -> Mapping[str, Cost]:
        """A product per value, but for the generator's; a read and a write."""
        cost = passes(math.prod(self.inputs), 1, 2)
        return dict.fromkeys(("forward", "backward_data"), cost)

    def __str__(self) -> str:
        return by(self.inputs[1:])


@dataclass(frozen=True, slots=True)
class AdditionShape(OperationShape):
    """The sum of two arrays of this shape, images first."""

    kind: ClassVar[str] = "addition"

    inputs: tuple[int, ...]

    @property
    def costs(self) -> Mapping[str, Cost]:
        """Its gradient is that of either input, and moves nothing."""
        return {"forward": passes(math.prod(self.inputs), 1, 3)}

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
