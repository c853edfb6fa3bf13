"""Local response normalisation across channels, defined (Krizhevsky et al. 2012, section 3.3)."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.response import ResponseNormalisation


def check_size(size: int) -> None:
    """Raise OperationError for a window that has no channel in its middle."""
    if size < 1 or size % 2 == 0:
        raise OperationError(
            f"local response normalisation over {size} channels was asked for: expected an odd "
            f"number, as Caffe does; use {max(size - 1, 1)} or {max(size + 1, 3)}"
        )


class LocalResponseNormalisation(ResponseNormalisation):
    """Values over a power of the sum of squares in their neighbouring channels.

    With s = bias + alpha/size * sum of x^2 over the `size` channels around each (zero outside):
    y = x * s^-beta, as in Caffe and PyTorch. values, gradient and out (N, H, W, C) float32. Raises
    OperationError for an even size.
    """

    def __init__(self, size: int, alpha: float, beta: float, bias: float) -> None:
        check_size(size)
        super().__init__(alpha / size, beta, bias)
        self._size = size

    def _window(self, values: AnyArray) -> AnyArray:
        side = self._size // 2
        bordered = np.pad(values, ((0, 0), (0, 0), (0, 0), (side, side)))
        total: AnyArray = sliding_window_view(bordered, self._size, axis=3).sum(axis=-1)
        return total
