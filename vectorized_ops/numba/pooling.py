"""Max pooling."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, images_last
from vectorized_ops.numba.compiler import parallel_kernel
from vectorized_ops.reference.pooling import check_window


class MaxPooling:
    """See `vectorized_ops.reference.pooling.MaxPooling`; images run fastest in memory."""

    def __init__(self, kernel: int, stride: int) -> None:
        check_window(kernel)
        self._kernel, self._stride = kernel, stride

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        """Write the largest value of each window and its place in the window."""
        _forward(
            images_last(images), images_last(out), images_last(which), self._kernel, self._stride
        )

    def backward(self, gradient: AnyArray, which: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the images: each cell's goes to the pixel that was largest."""
        _backward(
            images_last(gradient), images_last(which), images_last(out), self._kernel, self._stride
        )


@parallel_kernel
def _forward(images: Any, out: Any, which: Any, size: int, stride: int) -> None:
    for c in numba.prange(out.shape[0]):
        for y in range(out.shape[1]):
            for x in range(out.shape[2]):
                best, place = out[c, y, x], which[c, y, x]
                best[:] = images[c, y * stride, x * stride]
                place[:] = 0
                for p in range(1, size * size):
                    values = images[c, y * stride + p // size, x * stride + p % size]
                    for i in range(values.shape[0]):
                        larger = values[i] > best[i] or np.isnan(values[i])
                        best[i] = values[i] if larger else best[i]
                        place[i] = np.uint8(p) if larger else place[i]


@parallel_kernel
def _backward(gradient: Any, which: Any, out: Any, size: int, stride: int) -> None:
    for c in numba.prange(out.shape[0]):
        out[c] = 0.0
        for y in range(gradient.shape[1]):
            for x in range(gradient.shape[2]):
                values, place = gradient[c, y, x], which[c, y, x]
                for p in range(size * size):
                    target = out[c, y * stride + p // size, x * stride + p % size]
                    for i in range(values.shape[0]):
                        target[i] += values[i] if place[i] == p else np.float32(0.0)
