"""Local response normalisation between layers."""

from __future__ import annotations

from typing import Any, final

from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.options import Options
from knltrain.distributed_ops.times import BACKWARD_DATA, FORWARD
from knltrain.errors import NetworkError
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import LocalResponseShape


@final
class LocalResponseNormalisation(Layer):
    """Divides values of `shape` (N, H, W, C) by (bias + alpha/size * sum of squares)^beta.

    The sum is over the `size` channels around each (Krizhevsky et al. 2012, section 3.3). Raises
    NetworkError for an even size, and where the implementation has no such operation.
    """

    kind = "local response normalisation"

    def __init__(
        self,
        name: str,
        shape: tuple[int, int, int, int],
        options: Options | None = None,
        *,
        size: int = 5,
        alpha: float = 1e-4,
        beta: float = 0.75,
        bias: float = 1.0,
    ) -> None:
        super().__init__(name, options)
        make: Any = self._operations.local_response_normalisation
        if make is None:
            raise self._lacking(self.kind)
        try:
            self._operation = make(size, alpha, beta, bias)
        except OperationError as error:
            raise NetworkError(f"layer '{name}': {error}") from None
        self._shape = LocalResponseShape(shape, size, alpha, beta, bias)
        self.inputs, self.outputs = (shape,), shape
        self._out, self._inputs_gradient = self._array(*shape), self._array(*shape)
        self._values = self._out

    def forward(self, values: AnyArray) -> AnyArray:
        """Return the normalised values."""
        self._check("values", values, self._out)
        with self.times[FORWARD].computing():
            self._operation.forward(values, self._out)
        self._values = values
        return self._out

    def backward_data(self, gradient: AnyArray) -> AnyArray:
        """Return the gradient of the values of the last `forward`, which are still there."""
        self._check("a gradient", gradient, self._out)
        with self.times[BACKWARD_DATA].computing():
            self._operation.backward(self._values, gradient, self._inputs_gradient)
        return self._inputs_gradient

    @property
    def shape(self) -> LocalResponseShape:
        """The shape of the operation, for N images."""
        return self._shape
