"""Local response normalisation within a channel, defined (Caffe's WITHIN_CHANNEL)."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.response import ResponseNormalisation


def check_side(side: int) -> None:
    """Raise OperationError for a window that has no pixel in its middle."""
    if side < 1 or side % 2 == 0:
        raise OperationError(
            f"local response normalisation within {side} x {side} pixels was asked for: expected "
            f"an odd number, as Caffe does; use {max(side - 1, 1)} or {max(side + 1, 3)}"
        )


class WithinChannelNormalisation(ResponseNormalisation):
    """Values over a power of the mean of the squares around them, in the same channel.

    With s = 1 + alpha * mean of x^2 over the `side` x `side` pixels around each, of which those
    outside the map are 0 and count: y = x * s^-beta, as in Caffe. values, gradient and out
    (N, H, W, C) float32. Raises OperationError for an even side.
    """

    def __init__(self, side: int, alpha: float, beta: float) -> None:
        check_side(side)
        super().__init__(alpha, beta, 1)
        self._side = side

    def _window(self, values: AnyArray) -> AnyArray:
        side, around = self._side, self._side // 2
        bordered = np.pad(values, ((0, 0), (around, around), (around, around), (0, 0)))
        windows = sliding_window_view(bordered, (side, side), axis=(1, 2))
        means: AnyArray = windows.sum(axis=(-1, -2)) / values.dtype.type(side * side)
        return means
