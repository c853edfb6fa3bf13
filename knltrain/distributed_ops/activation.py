"""The rectified linear unit between layers."""

from __future__ import annotations

from typing import final

from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import BACKWARD_DATA, FORWARD
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import RectifierShape


@final
class ReLU(Layer):
    """max(values, 0) for values of `shape` (N, H, W, C) or (N, I)."""

    kind = "ReLU"

    def __init__(self, name: str, shape: tuple[int, ...], options: Options | None = None) -> None:
        super().__init__(name, options)
        self._shape = RectifierShape(shape)
        self.inputs, self.outputs = (shape,), shape
        self._out, self._inputs_gradient = self._array(*shape), self._array(*shape)

    def forward(self, values: AnyArray) -> AnyArray:
        """Return the rectified values."""
        self._check("values", values, self._out)
        with self.times[FORWARD].computing():
            self._operations.relu_forward(values, self._out)
        return self._out

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the values of the last `forward`."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            self._operations.relu_backward(gradient, self._out, self._inputs_gradient)
        return self._inputs_gradient

    @property
    def shape(self) -> RectifierShape:
        """The shape of the operation, for N images."""
        return self._shape
