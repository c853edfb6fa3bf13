"""Convolution with 2x2 max pooling in one pass: the full map is never written."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    AnyArray,
    aligned_zeros,
    images_last,
    padded_images,
    zeros_images_last,
)
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._pooled_tiles import pooled_tile, pooled_weights_tile
from vectorized_ops.numba._product import cheapest_rows
from vectorized_ops.numba._threads import part
from vectorized_ops.numba._tiles import ACCUMULATORS
from vectorized_ops.numba.compiler import kernel, parallel_kernel
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.pooling import MaxPooling
from vectorized_ops.numba.winograd import WinogradPooledConvolution, winograd_fits

ROWS_A, ROWS_B = ACCUMULATORS // 4, ACCUMULATORS // 4 - 1
WEIGHTS_TILE_KERNELS = (3, 5)
ALGORITHMS = ("auto", "direct", "winograd")


class DirectPooledConvolution:
    """The direct sum; backward-weights visits only the pixels that won their window's maximum.

    N is rounded up to whole vectors. Raises OperationError for shapes that the tiles do not take.
    """

    algorithm = "direct"

    def __init__(self, images_shape: tuple[int, ...], filters: int, kernel: int) -> None:
        number, (height, width, channels) = padded_images(images_shape[0]), images_shape[1:]
        self._full = Convolution(images_shape, filters, kernel, stride=1, padding=0)
        self._pooling = MaxPooling(2, 2)
        lines, pixels = height - kernel + 1, width - kernel + 1
        if min(lines, pixels) < 2:
            raise OperationError(
                f"2x2 pooling of a {lines}x{pixels} map was asked for: expected at least 2x2 "
                "pixels; use a smaller kernel or larger images"
            )
        self._gradient = zeros_images_last((number, lines, pixels, filters))
        c, r, s = np.ix_(range(channels), range(kernel), range(kernel))
        self._offsets = (((c * height + r) * width + s) * number).reshape(-1)
        lane, y, x = np.ix_(range(0, number, LANES), range(lines // 2), range(pixels // 2))
        self._cells = ((y * (pixels // 2) + x) * number + lane).reshape(-1)
        self._windows = ((y * 2 * width + x * 2) * number + lane).reshape(-1)
        self._rows = cheapest_rows(filters, (ROWS_A, ROWS_B, 1))
        sums = filters, channels, kernel * kernel + 1, LANES
        self._taps = aligned_zeros((numba.get_num_threads(), *sums))

    def forward(
        self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray, which: AnyArray
    ) -> None:
        """Write the pooled map and the place of each maximum in its window."""
        _forward(
            images_last(images), weights, bias, images_last(out), images_last(which),
            self._offsets, self._rows, len(self._taps),
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
    """Return the operation by "direct" sums, by "winograd", or ("auto") by Winograd if it fits."""
    if algorithm not in ALGORITHMS:
        raise OperationError(
            f"unknown algorithm {algorithm!r}: expected one of {', '.join(ALGORITHMS)}"
        )
    fits = winograd_fits(images_shape, filters, kernel)
    if algorithm == "winograd" or (algorithm == "auto" and fits):
        return WinogradPooledConvolution(images_shape, filters, kernel)
    return DirectPooledConvolution(images_shape, filters, kernel)


@parallel_kernel
def _forward(
    images: Any,
    weights: Any,
    bias: Any,
    out: Any,
    which: Any,
    offsets: Any,
    height: int,
    threads: int,
) -> None:
    lines, pixels, number = out.shape[1], out.shape[2], out.shape[3]
    rows = number // LANES * lines
    for thread in numba.prange(threads):
        for row in range(part(rows, thread, threads), part(rows, thread + 1, threads)):
            lane, y = row // lines * LANES, row % lines
            for x in range(pixels):
                source = (y * 2 * images.shape[2] + x * 2) * number + lane
                target = (y * pixels + x) * number + lane
                _window(images, source, weights, bias, out, which, target, offsets, height)


@kernel
def _window(
    images: Any,
    source: int,
    weights: Any,
    bias: Any,
    out: Any,
    which: Any,
    target: int,
    offsets: Any,
    height: int,
) -> None:
    """Compute all filters of one pooled cell, for one vector of images."""
    filters, taps = out.shape[0], len(offsets)
    plane = out.shape[1] * out.shape[2] * out.shape[3]
    pixel, line = images.shape[3], images.shape[2] * images.shape[3]
    k = 0
    while k < filters:
        k = min(k, filters - height)
        if height == ROWS_A:
            pooled_tile(
                ROWS_A, out, which, target + k * plane, plane, weights, k * taps, taps, bias, k,
                images, source, pixel, line, offsets, taps,
            )  # fmt: skip
        elif height == ROWS_B:
            pooled_tile(
                ROWS_B, out, which, target + k * plane, plane, weights, k * taps, taps, bias, k,
                images, source, pixel, line, offsets, taps,
            )  # fmt: skip
        else:
            pooled_tile(
                1, out, which, target + k * plane, plane, weights, k * taps, taps, bias, k,
                images, source, pixel, line, offsets, taps,
            )  # fmt: skip
        k += height


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
    """Sum over each thread's own images, then over the threads; taps (T, K, C, R*R + 1, LANES)."""
    threads, steps, filters = taps.shape[0], len(cells), weights_out.shape[0]
    for thread in numba.prange(threads):
        first, last = part(steps, thread, threads), part(steps, thread + 1, threads)
        if first == last:
            taps[thread] = 0.0
        else:
            _own_images(
                images, gradient, which, cells[first:last], windows[first:last], taps[thread]
            )
    for k in numba.prange(filters):
        for c in range(weights_out.shape[1]):
            flat = weights_out[k, c].reshape(-1)
            for tap in range(len(flat)):
                flat[tap] = taps[:, k, c, tap].sum()
        bias_out[k] = taps[:, k, 0, -1].sum()


@kernel
def _own_images(
    images: Any, gradient: Any, which: Any, cells: Any, windows: Any, taps: Any
) -> None:
    filters, channels, size = taps.shape[0], taps.shape[1], taps.shape[2] * LANES
    plane = gradient.shape[1] * gradient.shape[2] * gradient.shape[3]
    line, pixel = images.shape[2] * images.shape[3], images.shape[3]
    for k in range(filters):
        for c in range(channels):
            image, target = c * images.shape[1] * line, (k * channels + c) * size
            if taps.shape[2] == 26:
                pooled_weights_tile(
                    5, taps, target, gradient, which, k * plane, cells,
                    images, image, windows, line, pixel, len(cells),
                )  # fmt: skip
            else:
                pooled_weights_tile(
                    3, taps, target, gradient, which, k * plane, cells,
                    images, image, windows, line, pixel, len(cells),
                )  # fmt: skip
