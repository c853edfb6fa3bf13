"""Dropout between layers."""

from __future__ import annotations

from typing import Any, final

from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import BACKWARD_DATA, FORWARD
from knltrain.errors import NetworkError
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import DropoutShape


@final
class Dropout(Layer):
    """Sets a share `rate` of values of `shape` to zero, and divides the others by 1 - rate.

    Which ones follows from a key (Srivastava et al. 2014). Raises NetworkError unless
    0 <= rate < 1, and where the implementation has no dropout.
    """

    kind = "dropout"

    def __init__(
        self, name: str, shape: tuple[int, ...], rate: float, options: Options | None = None
    ) -> None:
        super().__init__(name, options)
        make: Any = self._operations.dropout
        if make is None:
            raise self._lacking(self.kind)
        try:
            self._operation = make(rate)
        except OperationError as error:
            raise NetworkError(f"layer '{name}': {error}") from None
        self._shape = DropoutShape(shape, rate)
        self.inputs, self.outputs = (shape,), shape
        self._key = 0
        self._out, self._inputs_gradient = self._array(*shape), self._array(*shape)

    def forward(self, values: AnyArray, key: int | None) -> AnyArray:
        """Return what is left of the values; without a key, as in evaluation, all of them.

        Each step, rank and layer needs a `key` of its own, 0 <= key < 2^64; NetworkError for
        others.
        """
        self._check("values", values, self._out)
        if key is None:
            return values
        if not 0 <= key < 2**64:
            raise NetworkError(
                f"layer '{self.name}' was given the key {key}: expected 0 to 2^64 - 1"
            )
        with self.times[FORWARD].computing():
            self._operation.forward(values, self._out, key)
        self._key = key
        return self._out

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the values of the last `forward` with a key."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            self._operation.backward(gradient, self._inputs_gradient, self._key)
        return self._inputs_gradient

    @property
    def shape(self) -> DropoutShape:
        """The shape of the operation, for N images."""
        return self._shape
