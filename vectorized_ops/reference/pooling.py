"""Max pooling, defined."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray

LARGEST_WINDOW = 16
"""Pixels on a side: places in a window are bytes."""


def check_window(kernel: int) -> None:
    """Raise OperationError for windows of more places than a byte can name."""
    if kernel > LARGEST_WINDOW:
        raise OperationError(
            f"max pooling over windows of {kernel}x{kernel} pixels was asked for: expected at most "
            f"{LARGEST_WINDOW}x{LARGEST_WINDOW}; pool twice with smaller windows"
        )


class MaxPooling:
    """The largest value of each window of kernel x kernel pixels, `stride` pixels apart.

    images (N, H, W, C) and out (N, H', W', C) float32, H' = (H - kernel) // stride + 1; `which`
    (N, H', W', C) uint8 is the place of the maximum in its window, line by line; the first of equal
    values, and a NaN before all others (of several NaN, any). Raises OperationError for a kernel
    above 16.
    """

    def __init__(self, kernel: int, stride: int) -> None:
        check_window(kernel)
        self._kernel, self._stride = kernel, stride

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        """Write the maxima and their places."""
        windows = sliding_window_view(images, (self._kernel, self._kernel), axis=(1, 2))
        values = windows[:, :: self._stride, :: self._stride].reshape(*out.shape, -1)
        which[...] = values.argmax(axis=-1)
        out[...] = np.take_along_axis(values, which[..., None].astype(np.intp), axis=-1)[..., 0]

    def backward(self, gradient: AnyArray, which: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the images: each cell's goes to the pixel that was largest."""
        out[...] = 0
        _, lines, pixels, _ = gradient.shape
        for place in range(self._kernel**2):
            r, s = divmod(place, self._kernel)
            y = slice(r, r + lines * self._stride, self._stride)
            x = slice(s, s + pixels * self._stride, self._stride)
            out[:, y, x] += np.where(which == place, gradient, 0)
