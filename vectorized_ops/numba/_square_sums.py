"""Backward-weights of a 3x3 convolution by Winograd: outer products at every point.

The adjoint of F(m x m, 3 x 3): gradients of m x m pixels and inputs of n x n pixels both become
n*n points, whose products are summed over tiles and images; at the end the sums become 3 x 3 taps.
As in `_outer_product`, gradients are turned so that filters are lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba

from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._outer_product import PANEL, PANEL_COLUMNS, turn_pixel
from vectorized_ops.numba._outer_product_tiles import outer_product_tile
from vectorized_ops.numba._square_tiles import (
    TAPS,
    square_gradient_tile,
    square_input_tile,
    square_taps_tile,
)
from vectorized_ops.numba._threads import part
from vectorized_ops.numba.compiler import parallel_kernel


@functools.cache
def square_sums_kernel(outputs: int, rows: int, images: int) -> Callable[..., None]:
    """Return the kernel that sums the points' products, with tiles of so many channels."""
    points, area = (outputs + TAPS - 1) ** 2, outputs * outputs

    @parallel_kernel
    def sum_points(
        inputs: Any,
        distance: int,
        size: tuple[int, int],
        channels: int,
        gradient: Any,
        gradient_distance: int,
        out_size: tuple[int, int],
        filters: int,
        padding: tuple[int, int],
        starts: Any,
        widths: Any,
        sums: Any,
        bias_sums: Any,
        transformed: Any,
        turned: Any,
        panels: Any,
        zeros: Any,
        at_once: int,
    ) -> None:
        """Fill `sums` (threads, n*n, panels, row blocks, rows, PANEL) and `bias_sums`.

        `transformed`, `turned` and `panels` are scratch, a row per thread.
        """
        across = (out_size[1] + outputs - 1) // outputs
        tiles = (out_size[0] + outputs - 1) // outputs * across
        threads, columns = sums.shape[0], len(starts)
        row_blocks, wide = (channels + rows - 1) // rows, channels * images
        for thread in numba.prange(threads):
            own, own_bias = sums[thread], bias_sums[thread]
            own[:], own_bias[:] = 0.0, 0.0
            last = part(tiles, thread + 1, threads)
            for first in range(part(tiles, thread, threads), last, at_once):
                number = min(at_once, last - first)
                for t in range(number):
                    y, x = (first + t) // across * outputs, (first + t) % across * outputs
                    square_input_tile(
                        outputs, transformed[thread], t * wide, at_once * wide,
                        inputs, y - padding[0], x - padding[1], size[0], size[1], distance,
                        zeros, wide // LANES,
                    )  # fmt: skip
                for column in range(columns):
                    vectors = widths[column]
                    pixel_size = images * vectors * LANES
                    for t in range(number):
                        y, x = (first + t) // across * outputs, (first + t) % across * outputs
                        for place in range(area):
                            line, pixel = y + place // outputs, x + place % outputs
                            if line < out_size[0] and pixel < out_size[1]:
                                source = (line * out_size[1] + pixel) * gradient_distance
                                turn_pixel(
                                    turned[thread], place * pixel_size, vectors, own_bias,
                                    column * PANEL, gradient, source + starts[column] * images,
                                    filters, images,
                                )  # fmt: skip
                            else:
                                turned[thread, place * pixel_size : (place + 1) * pixel_size] = 0.0
                        square_gradient_tile(
                            outputs, panels[thread], t * pixel_size, at_once * pixel_size,
                            turned[thread], pixel_size, pixel_size // LANES,
                        )  # fmt: skip
                    for point in range(points):
                        right = point * at_once * pixel_size
                        for block in range(row_blocks):
                            c = min(block * rows, channels - rows)
                            target = ((point * columns + column) * row_blocks + block) * (
                                rows * PANEL
                            )
                            left = point * at_once * wide + c * images
                            if vectors == PANEL_COLUMNS:
                                outer_product_tile(
                                    rows, PANEL_COLUMNS, images, own, target, transformed[thread],
                                    left, wide, 0, panels[thread], right, pixel_size, 0, number, 1,
                                )  # fmt: skip
                            else:
                                outer_product_tile(
                                    rows, 1, images, own, target, transformed[thread],
                                    left, wide, 0, panels[thread], right, pixel_size, 0, number, 1,
                                )  # fmt: skip

    return sum_points


@functools.cache
def square_taps_kernel(outputs: int) -> Callable[..., None]:
    """Return the kernel that adds the threads' sums and turns points into taps."""
    points, area = (outputs + TAPS - 1) ** 2, TAPS * TAPS

    @parallel_kernel
    def write_taps(
        sums: Any, rows: int, channels: int, starts: Any, widths: Any, of_filter: Any, taps: Any,
        out: Any,
    ) -> None:  # fmt: skip
        """Write weights (K, channels, 3, 3), flat; `taps` (threads, 9, LANES) is scratch."""
        threads, columns = sums.shape[0], len(starts)
        row_blocks = (channels + rows - 1) // rows
        point = columns * row_blocks * rows * PANEL
        for thread in numba.prange(threads):
            for place in range(
                part(points * point, thread, threads), part(points * point, thread + 1, threads)
            ):
                total = sums[0, place]
                for other in range(1, threads):
                    total += sums[other, place]
                sums[0, place] = total
        for thread in numba.prange(threads):
            own = taps[thread]
            for item in range(
                part(columns * channels, thread, threads),
                part(columns * channels, thread + 1, threads),
            ):
                column, c = item // channels, item % channels
                row = c - min(c // rows * rows, channels - rows)
                begin = (column * row_blocks + c // rows) * rows * PANEL
                begin += row * widths[column] * LANES
                for vector in range(widths[column]):
                    square_taps_tile(outputs, own, sums[0], begin + vector * LANES, point)
                    for lane in range(LANES):
                        k = starts[column] + vector * LANES + lane
                        if k < len(of_filter) and of_filter[k] == column:
                            for tap in range(area):
                                out[(k * channels + c) * area + tap] = own[tap, lane]

    return write_taps
