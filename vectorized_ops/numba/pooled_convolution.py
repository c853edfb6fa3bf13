"""Convolution with 2x2 max pooling in one pass: the full map is never written."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros, images_last, zeros_images_last
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._pooled_tiles import pooled_tile, pooled_weights_tile
from vectorized_ops.numba._product import cheapest_rows
from vectorized_ops.numba._tiles import ACCUMULATORS
from vectorized_ops.numba.compiler import parallel_kernel
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.pooling import MaxPooling
from vectorized_ops.numba.winograd import WinogradPooledConvolution, winograd_fits

ROWS_A, ROWS_B = ACCUMULATORS // 4, ACCUMULATORS // 4 - 1
WEIGHTS_TILE_KERNELS = (3, 5)


class DirectPooledConvolution:
    """The direct sum; backward-weights visits only the pixels that won their window's maximum."""

    algorithm = "direct"

    def __init__(self, images_shape: tuple[int, ...], filters: int, kernel: int) -> None:
        number, height, width, channels = images_shape
        self._full = Convolution(images_shape, filters, kernel, stride=1, padding=0)
        self._pooling = MaxPooling(2, 2)
        lines, pixels = height - kernel + 1, width - kernel + 1
        self._gradient = zeros_images_last((number, lines, pixels, filters))
        c, r, s = np.ix_(range(channels), range(kernel), range(kernel))
        self._offsets = (((c * height + r) * width + s) * number).reshape(-1)
        lane, y, x = np.ix_(range(0, number, LANES), range(lines // 2), range(pixels // 2))
        self._cells = ((y * (pixels // 2) + x) * number + lane).reshape(-1)
        self._windows = ((y * 2 * width + x * 2) * number + lane).reshape(-1)
        self._rows = cheapest_rows(filters, (ROWS_A, ROWS_B, 1))
        self._taps = aligned_zeros((filters, kernel * kernel, LANES))

    def forward(
        self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray, which: AnyArray
    ) -> None:
        """Write the pooled map and the place of each maximum in its window."""
        _forward(
            images_last(images), weights, bias, images_last(out), images_last(which),
            self._offsets, self._rows,
        )  # fmt: skip

    def backward(
        self,
        images: AnyArray,
        gradient: AnyArray,
        which: AnyArray,
        weights: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray,
        images_out: AnyArray | None,
    ) -> None:
        """Write the gradients of weights, bias and, unless it is None, of the images."""
        tiled = weights.shape[2] in WEIGHTS_TILE_KERNELS
        if images_out is not None or not tiled:
            self._pooling.backward(gradient, which, self._gradient)
        if tiled:
            _backward_weights(
                images_last(images), images_last(gradient), images_last(which), weights_out,
                bias_out, self._cells, self._windows, self._taps,
            )  # fmt: skip
        else:
            self._full.backward_weights(images, self._gradient, weights_out, bias_out)
        if images_out is not None:
            self._full.backward_data(self._gradient, weights, images_out)


def pooled_convolution(
    images_shape: tuple[int, ...], filters: int, kernel: int, algorithm: str = "auto"
) -> DirectPooledConvolution | WinogradPooledConvolution:
    """Return the operation by "direct" sums, by "winograd", or by the one with fewer multiplications."""
    if algorithm == "winograd" or (algorithm == "auto" and winograd_fits(images_shape, filters, kernel)):
        return WinogradPooledConvolution(images_shape, filters, kernel)
    return DirectPooledConvolution(images_shape, filters, kernel)


@parallel_kernel
def _forward(
    images: Any, weights: Any, bias: Any, out: Any, which: Any, offsets: Any, height: int
) -> None:
    filters, lines, pixels, number = out.shape
    width, taps = images.shape[2], len(offsets)
    for cell in numba.prange(lines * pixels):
        y, x = cell // pixels, cell % pixels
        for lane in range(0, number, LANES):
            source = (y * 2 * width + x * 2) * number + lane
            row = 0
            while row < filters:
                row = min(row, filters - height)
                target = (row * lines * pixels + cell) * number + lane
                if height == ROWS_A:
                    pooled_tile(
                        ROWS_A, out, which, target, lines * pixels * number, weights, row * taps,
                        taps, bias, row, images, source, number, width * number, offsets, taps,
                    )  # fmt: skip
                elif height == ROWS_B:
                    pooled_tile(
                        ROWS_B, out, which, target, lines * pixels * number, weights, row * taps,
                        taps, bias, row, images, source, number, width * number, offsets, taps,
                    )  # fmt: skip
                else:
                    pooled_tile(
                        1, out, which, target, lines * pixels * number, weights, row * taps,
                        taps, bias, row, images, source, number, width * number, offsets, taps,
                    )  # fmt: skip
                row += height


@parallel_kernel
def _backward_weights(
    images: Any,
    gradient: Any,
    which: Any,
    weights_out: Any,
    bias_out: Any,
    cells: Any,
    windows: Any,
    taps: Any,
) -> None:
    filters, channels, kernel = weights_out.shape[0], weights_out.shape[1], weights_out.shape[2]
    plane = gradient.shape[1] * gradient.shape[2] * gradient.shape[3]
    line, pixel = images.shape[2] * images.shape[3], images.shape[3]
    for k in numba.prange(filters):
        for c in range(channels):
            image = c * images.shape[1] * line
            if kernel == 5:
                pooled_weights_tile(
                    5, taps, k * 25 * LANES, gradient, which, k * plane, cells,
                    images, image, windows, line, pixel, len(cells),
                )  # fmt: skip
            else:
                pooled_weights_tile(
                    3, taps, k * 9 * LANES, gradient, which, k * plane, cells,
                    images, image, windows, line, pixel, len(cells),
                )  # fmt: skip
            for tap in range(kernel * kernel):
                weights_out[k, c, tap // kernel, tap % kernel] = taps[k, tap].sum()
        total = np.float32(0.0)
        for value in gradient[k].flat:
            total += value
        bias_out[k] = total
