"""Convolution with 2x2 max pooling in one pass: the full map is never written."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    AnyArray,
    aligned_zeros,
    padded_images,
    pixels,
    zeros_images_last,
)
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.dot_tiles import ACCUMULATORS, cheapest_rows
from vectorized_ops.numba.kernels.pooled_convolution.direct_tiles import (
    AHEAD,
    pooled_tile,
    pooled_weights_tile,
)
from vectorized_ops.numba.kernels.pooled_convolution.winograd import (
    WinogradPooledConvolution,
    winograd_fits,
)
from vectorized_ops.shapes import ConvolutionShape, PoolingShape

if TYPE_CHECKING:
    from vectorized_ops.numba.convolution import Convolution
    from vectorized_ops.numba.pooling import MaxPooling

ROWS_A, ROWS_B = ACCUMULATORS // 4, ACCUMULATORS // 4 - 1
WEIGHTS_TILE_KERNELS = (3, 5)
ALGORITHMS = ("auto", "direct", "winograd4")


class DirectPooledConvolution:
    """The direct sum; backward-weights visits only the pixels that won their window's maximum.

    `winners_share` is their share of the products of backward-weights.
    N is rounded up to whole vectors. Raises OperationError for maps that cannot be pooled.
    """

    algorithm = "direct"

    def __init__(self, images_shape: tuple[int, ...], filters: int, kernel: int) -> None:
        images, height, width, channels = images_shape
        shape = ConvolutionShape(images, height, width, channels, filters, (kernel, kernel))
        if min(shape.lines, shape.pixels) < 2:
            raise OperationError(
                f"2x2 pooling of a {shape.lines}x{shape.pixels} map was asked for: expected at "
                "least 2x2 pixels; use a smaller kernel or larger images"
            )
        self._shape, self._images = shape, padded_images(shape.images)
        self._tables: dict[tuple[str, int], AnyArray] = {}
        self._rows = cheapest_rows(filters, (ROWS_A, ROWS_B, 1))
        sums = filters, shape.channels, kernel * kernel + 1, LANES
        self.winners_share = 1 / 4 if kernel in WEIGHTS_TILE_KERNELS else 1.0
        self._taps = aligned_zeros((numba.get_num_threads(), *sums))

    def forward(
        self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray, which: AnyArray
    ) -> None:
        """Write the pooled map and the place of each maximum in its window."""
        source, distance = pixels(images)
        _forward(
            source, distance, images.shape[2], self._images, weights, bias, *pixels(out),
            *pixels(which), out.shape[1], out.shape[2], self._table("taps", distance), self._rows,
            len(self._taps),
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
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of weights, bias and, unless it is None, of the images."""
        tiled = weights.shape[2] in WEIGHTS_TILE_KERNELS
        if images_out is not None or not tiled:
            self._pooling.backward(gradient, which, self._gradient)
        if tiled:
            self._visit_winners(images, gradient, which, weights_out, bias_out)
        else:
            self._full.backward_weights(images, self._gradient, weights_out, bias_out)
        if images_out is not None:
            self._full.backward_data(self._gradient, weights, images_out, add, mask)

    @cached_property
    def _full(self) -> Convolution:
        """The convolution, for gradients that need that of the full map; the first layer's do not.

        Neither it nor the two below are made, or even imported, where no call needs them.
        """
        from vectorized_ops.numba.convolution import Convolution

        return Convolution(self._shape)

    @cached_property
    def _pooling(self) -> MaxPooling:
        from vectorized_ops.numba.pooling import MaxPooling

        shape = self._shape
        return MaxPooling(PoolingShape(shape.lines, shape.pixels, (2, 2), (2, 2)))

    @cached_property
    def _gradient(self) -> AnyArray:
        """That of the full map."""
        return zeros_images_last((self._images, *self._shape.outputs[1:]))

    def _visit_winners(
        self,
        images: AnyArray,
        gradient: AnyArray,
        which: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray,
    ) -> None:
        (source, pixel), (values, cell) = pixels(images), pixels(gradient)
        winners, winner = pixels(which)
        _backward_weights(
            source, pixel, images.shape[2], self._images,
            values, self._table("cells", cell), winners, self._table("cells", winner),
            self._table("windows", pixel), weights_out, bias_out, self._taps,
        )  # fmt: skip

    def _table(self, kind: str, pixel: int) -> AnyArray:
        """Return the offsets, pixels being so far apart, of a window's taps, or of all cells.

        Cells, and the corners of their windows, are numbered vector of images by vector, so that
        threads share them out by images. Behind the last stand AHEAD more, for those who fetch.
        """
        if (kind, pixel) not in self._tables:
            shape, width = self._shape, self._shape.width
            if kind == "taps":
                c, r, s = np.ix_(*map(range, shape.weights[1:]))
                table = (r * width + s) * pixel + c * self._images
            else:
                step, line = (1, shape.pixels // 2) if kind == "cells" else (2, width)
                lane, y, x = np.ix_(
                    range(0, self._images, LANES), range(shape.lines // 2), range(shape.pixels // 2)
                )
                table = (y * line + x) * step * pixel + lane
                table = np.resize(table, table.size + AHEAD)
            self._tables[kind, pixel] = table.reshape(-1)
        return self._tables[kind, pixel]


def pooled_convolution(
    images_shape: tuple[int, ...], filters: int, kernel: int, algorithm: str = "auto"
) -> DirectPooledConvolution | WinogradPooledConvolution:
    """Return the operation by "direct" sums, by "winograd4", or ("auto") by Winograd if it fits."""
    if algorithm not in ALGORITHMS:
        raise OperationError(
            f"unknown algorithm {algorithm!r}: expected one of {', '.join(ALGORITHMS)}"
        )
    fits = winograd_fits(images_shape, filters, kernel)
    if algorithm == "winograd4" or (algorithm == "auto" and fits):
        return WinogradPooledConvolution(images_shape, filters, kernel)
    return DirectPooledConvolution(images_shape, filters, kernel)


@parallel_kernel
def _forward(
    images: Any,
    pixel: int,
    width: int,
    number: int,
    weights: Any,
    bias: Any,
    out: Any,
    out_pixel: int,
    which: Any,
    which_pixel: int,
    lines: int,
    pixels: int,
    offsets: Any,
    height: int,
    threads: int,
) -> None:
    rows = number // LANES * lines
    for thread in numba.prange(threads):
        for row in range(part(rows, thread, threads), part(rows, thread + 1, threads)):
            lane, y = row // lines * LANES, row % lines
            for x in range(pixels):
                cell = y * pixels + x
                _window(
                    images, (y * width + x) * 2 * pixel + lane, pixel, width * pixel, number,
                    weights, bias, out, cell * out_pixel + lane, which, cell * which_pixel + lane,
                    offsets, height,
                )  # fmt: skip


@kernel
def _window(
    images: Any,
    source: int,
    pixel: int,
    line: int,
    number: int,
    weights: Any,
    bias: Any,
    out: Any,
    target: int,
    which: Any,
    place: int,
    offsets: Any,
    height: int,
) -> None:
    """Compute all filters of one pooled cell, for one vector of images."""
    filters, taps = weights.shape[0], len(offsets)
    k = 0
    while k < filters:
        k = min(k, filters - height)
        row = k * number
        if height == ROWS_A:
            pooled_tile(
                ROWS_A, out, target + row, which, place + row, number, weights, k * taps, taps,
                bias, k, images, source, pixel, line, offsets, taps,
            )  # fmt: skip
        elif height == ROWS_B:
            pooled_tile(
                ROWS_B, out, target + row, which, place + row, number, weights, k * taps, taps,
                bias, k, images, source, pixel, line, offsets, taps,
            )  # fmt: skip
        else:
            pooled_tile(
                1, out, target + row, which, place + row, number, weights, k * taps, taps,
                bias, k, images, source, pixel, line, offsets, taps,
            )  # fmt: skip
        k += height


@parallel_kernel
def _backward_weights(
    images: Any,
    pixel: int,
    width: int,
    number: int,
    gradient: Any,
    cells: Any,
    which: Any,
    which_cells: Any,
    windows: Any,
    weights_out: Any,
    bias_out: Any,
    taps: Any,
) -> None:
    """Sum over each thread's own images, then over the threads; taps (T, K, C, R*R + 1, LANES)."""
    threads, steps, filters = taps.shape[0], len(windows) - AHEAD, weights_out.shape[0]
    for thread in numba.prange(threads):
        first, last = part(steps, thread, threads), part(steps, thread + 1, threads)
        if first == last:
            taps[thread] = 0.0
        else:
            _own_images(
                images, pixel, width * pixel, number, gradient, cells[first:last],
                which, which_cells[first:last], windows[first:last], taps[thread],
            )  # fmt: skip
    for k in numba.prange(filters):
        for c in range(weights_out.shape[1]):
            for row in range(weights_out.shape[2]):
                for column in range(weights_out.shape[3]):
                    tap = row * weights_out.shape[3] + column
                    weights_out[k, c, row, column] = _total(taps, k, c, tap)
        bias_out[k] = _total(taps, k, 0, taps.shape[3] - 1)


@kernel
def _total(taps: Any, k: int, c: int, tap: int) -> Any:
    """Return the sum of a tap over threads and lanes."""
    total = np.float32(0.0)
    for thread in range(taps.shape[0]):
        for lane in range(LANES):
            total += taps[thread, k, c, tap, lane]
    return total


@kernel
def _own_images(
    images: Any,
    pixel: int,
    line: int,
    number: int,
    gradient: Any,
    cells: Any,
    which: Any,
    which_cells: Any,
    windows: Any,
    taps: Any,
) -> None:
    filters, channels, size = taps.shape[0], taps.shape[1], taps.shape[2] * LANES
    for k in range(filters):
        for c in range(channels):
            image, target, row = c * number, (k * channels + c) * size, k * number
            if taps.shape[2] == 26:
                pooled_weights_tile(
                    5, taps, target, gradient, row, cells, which, row, which_cells,
                    images, image, windows, line, pixel, len(cells),
                )  # fmt: skip
            else:
                pooled_weights_tile(
                    3, taps, target, gradient, row, cells, which, row, which_cells,
                    images, image, windows, line, pixel, len(cells),
                )  # fmt: skip
