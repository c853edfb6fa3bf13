"""Where branches join: concatenation and addition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import final

import numpy as np

from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import BACKWARD_DATA, FORWARD
from knltrain.errors import NetworkError
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import AdditionShape, ConcatenationShape


@final
class Concatenation(Layer):
    """The channels of arrays of `shapes`, (N, H, W, C) or (N, I), behind each other.

    Raises NetworkError for shapes that differ in more than their last extent.
    """

    kind = "concatenation"

    def __init__(
        self, name: str, shapes: Sequence[tuple[int, ...]], options: Options | None = None
    ) -> None:
        super().__init__(name, options)
        if len({shape[:-1] for shape in shapes}) != 1:
            raise NetworkError(
                f"layer '{name}' cannot concatenate {', '.join(map(str, shapes)) or 'nothing'}: "
                "expected shapes that differ in their last extent, the channels, alone"
            )
        bounds = accumulate((shape[-1] for shape in shapes), initial=0)
        self._parts = [slice(*bound) for bound in pairwise(bounds)]
        self.inputs = tuple(shapes)
        self.outputs = (*shapes[0][:-1], self._parts[-1].stop)
        self._shape, self._out = ConcatenationShape(self.outputs), self._array(*self.outputs)

    def forward(self, *values: AnyArray) -> AnyArray:
        """Return the concatenated values, of as many arrays as there are shapes."""
        if len(values) != len(self._parts):
            raise NetworkError(
                f"layer '{self.name}' was given {len(values)} arrays: expected {len(self._parts)}"
            )
        for part, each in zip(self._parts, values, strict=True):
            self._check("values", each, self._out[..., part])
        with self.times[FORWARD].computing():
            for part, each in zip(self._parts, values, strict=True):
                np.copyto(self._out[..., part], each)
        return self._out

    def backward_data(self, gradient: AnyArray) -> tuple[AnyArray, ...]:
        """Return the gradient of each array: a part of what is given, not a copy."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            return tuple(gradient[..., part] for part in self._parts)

    @property
    def shape(self) -> ConcatenationShape:
        """The shape of the operation, for N images."""
        return self._shape


@final
class Addition(Layer):
    """The sum of two arrays of `shape`, (N, H, W, C) or (N, I)."""

    kind = "addition"

    def __init__(self, name: str, shape: tuple[int, ...], options: Options | None = None) -> None:
        super().__init__(name, options)
        self._shape = AdditionShape(shape)
        self.inputs, self.outputs = (shape, shape), shape
        self._out = self._array(*shape)

    def forward(self, left: AnyArray, right: AnyArray) -> AnyArray:
        """Return left + right."""
        for each in (left, right):
            self._check("values", each, self._out)
        with self.times[FORWARD].computing():
            self._operations.add(left, right, self._out)
        return self._out

    def backward_data(self, gradient: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the gradient of both: the given one, not a copy."""
        self._check("a gradient", gradient, self._out)
        return gradient, gradient

    @property
    def shape(self) -> AdditionShape:
        """The shape of the operation, for N images."""
        return self._shape
