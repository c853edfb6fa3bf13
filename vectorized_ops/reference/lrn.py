"""Local response normalisation across channels, defined (Krizhevsky et al. 2012, section 3.3)."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


def check_size(size: int) -> None:
    """Raise OperationError for a window that has no channel in its middle."""
    if size < 1 or size % 2 == 0:
        raise OperationError(
            f"local response normalisation over {size} channels was asked for: expected an odd "
            f"number, as Caffe does; use {max(size - 1, 1)} or {max(size + 1, 3)}"
        )


class LocalResponseNormalisation:
    """Values over a power of the sum of squares in their neighbouring channels.

    With s = bias + alpha/size * sum of x^2 over the `size` channels around each (zero outside):
    y = x * s^-beta, as in Caffe and PyTorch. values, gradient and out (N, H, W, C) float32. Raises
    OperationError for an even size.
    """

    def __init__(self, size: int, alpha: float, beta: float, bias: float) -> None:
        check_size(size)
        self._size, self._alpha, self._beta, self._bias = size, alpha, beta, bias

    @np.errstate(invalid="ignore")
    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write y; `out` must not overlap `values`."""
        out[...] = values * self._sums(values) ** -self._beta

    @np.errstate(invalid="ignore")
    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient * s^-beta - 2*alpha*beta/size * values * sum of gradient * y/s.

        s is computed from `values` again; `out` must overlap neither argument. `add` and `mask` as
        in `vectorized_ops.reference.gradient.write_gradient`.
        """
        sums = self._sums(values)
        slopes = self._window_sum(gradient * values * sums ** (-self._beta - 1))
        factor = 2 * self._alpha * self._beta / self._size
        value = gradient * sums**-self._beta - factor * values * slopes
        write_gradient(value, out, add, mask)

    def _sums(self, values: AnyArray) -> AnyArray:
        sums: AnyArray = self._bias + self._alpha / self._size * self._window_sum(values**2)
        return sums

    def _window_sum(self, values: AnyArray) -> AnyArray:
        side = self._size // 2
        bordered = np.pad(values, ((0, 0), (0, 0), (0, 0), (side, side)))
        total: AnyArray = sliding_window_view(bordered, self._size, axis=3).sum(axis=-1)
        return total
