"""Backward-weights of a convolution by Winograd: outer products at every point.

The adjoint of F(m x m, r x r): gradients of m x m pixels and inputs of n x n pixels both become
n*n points, whose products are summed over tiles and images; at the end the sums become r x r taps.
As in `_squares` a thread takes some items at a time, tiles of some images, and as in
`_outer_product` gradients are turned so that filters are lanes. Threads that share items, and
sums, take panels of filters each: where a thread's own sums would take too much memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba

from vectorized_ops.numba._ends import Ends, used_points
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._outer_product import PANEL, PANEL_COLUMNS, turn_pixel
from vectorized_ops.numba._outer_product_tiles import outer_product_tile
from vectorized_ops.numba._square_tiles import (
    square_gradient_tile,
    square_input_tile,
    square_taps_tile,
)
from vectorized_ops.numba._squares import GAP
from vectorized_ops.numba._threads import part
from vectorized_ops.numba.compiler import parallel_kernel


@functools.cache
def square_sums_kernel(
    outputs: int, taps: int, rows: int, piece: int, ends: Ends
) -> Callable[..., None]:
    """Return the kernel that sums the points' products.

    Its tiles have so many `rows` (channels), its items `piece` images, a share of all. `ends` are
    those of the map of the gradient.
    """
    points, used = (outputs + taps - 1) ** 2, used_points(outputs, taps, ends)
    (lines, columns), area = ends, outputs * outputs

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
        images: int,
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
        items: Any,
        parts: Any,
    ) -> None:
        """Fill `sums` (shares, n*n, panels, row blocks, rows, PANEL) and `bias_sums`.

        `transformed`, `turned` and `panels` are scratch, a row per thread. `items` and `parts` are
        those of `Items` for so many shares; the threads of a share divide the panels.
        """
        threads, shares, panel_columns = transformed.shape[0], sums.shape[0], len(starts)
        team = threads // shares
        row_blocks, wide = (channels + rows - 1) // rows, channels * piece
        left_step = at_once * wide + GAP
        of_column = row_blocks * rows * PANEL
        for thread in numba.prange(threads):
            share, member = thread // team, thread % team
            first_column = part(panel_columns, member, team)
            last_column = part(panel_columns, member + 1, team)
            own, own_bias = sums[share], bias_sums[share]
            own_bias[first_column * PANEL : last_column * PANEL] = 0.0
            for point in range(points):
                begin = point * panel_columns
                own[(begin + first_column) * of_column : (begin + last_column) * of_column] = 0.0
            for first in range(parts[share], parts[share + 1], at_once):
                number = min(at_once, parts[share + 1] - first)
                for t in range(number):
                    begin, y, x, kind = items[first + t]
                    square_input_tile(
                        outputs, taps, lines, columns, kind, transformed[thread], t * wide,
                        left_step, inputs, begin, y - padding[0], x - padding[1], size[0], size[1],
                        distance, zeros, channels, images, piece, piece // LANES,
                    )  # fmt: skip
                for column in range(first_column, last_column):
                    vectors = widths[column]
                    pixel_size = piece * vectors * LANES
                    right_step = at_once * pixel_size + GAP
                    for t in range(number):
                        begin, y, x, kind = items[first + t]
                        for cell in range(area):
                            line, pixel = y + cell // outputs, x + cell % outputs
                            if line < out_size[0] and pixel < out_size[1]:
                                source = (line * out_size[1] + pixel) * gradient_distance + begin
                                turn_pixel(
                                    turned[thread], cell * pixel_size, vectors, own_bias,
                                    column * PANEL, gradient, source + starts[column] * images,
                                    filters, images, piece,
                                )  # fmt: skip
                        square_gradient_tile(
                            outputs, taps, lines, columns, kind, panels[thread], t * pixel_size,
                            right_step, turned[thread], pixel_size, pixel_size // LANES,
                        )  # fmt: skip
                    for point in range(points):
                        t = 0
                        while t < number:
                            run = 0  # of items that have this point
                            while t + run < number and used[items[first + t + run, 3], point]:
                                run += 1
                            left, right = point * left_step + t * wide, point * right_step
                            right += t * pixel_size
                            t += run + 1
                            if run == 0:
                                continue
                            for block in range(row_blocks):
                                c = min(block * rows, channels - rows)
                                target = (point * panel_columns + column) * of_column
                                target, source = target + block * rows * PANEL, left + c * piece
                                if vectors == PANEL_COLUMNS:
                                    outer_product_tile(
                                        rows, PANEL_COLUMNS, piece, own, target,
                                        transformed[thread], source, wide, 0, panels[thread],
                                        right, pixel_size, 0, run, 1,
                                    )  # fmt: skip
                                else:
                                    outer_product_tile(
                                        rows, 1, piece, own, target,
                                        transformed[thread], source, wide, 0, panels[thread],
                                        right, pixel_size, 0, run, 1,
                                    )  # fmt: skip

    return sum_points


@functools.cache
def square_taps_kernel(outputs: int, taps: int) -> Callable[..., None]:
    """Return the kernel that adds the threads' sums and turns points into taps."""
    points, area = (outputs + taps - 1) ** 2, taps * taps

    @parallel_kernel
    def write_taps(
        sums: Any, rows: int, channels: int, starts: Any, widths: Any, of_filter: Any,
        scratch: Any, out: Any,
    ) -> None:  # fmt: skip
        """Write weights (K, channels, r, r), flat; `scratch` is (threads, r*r, LANES)."""
        threads, shares, columns = scratch.shape[0], sums.shape[0], len(starts)
        row_blocks = (channels + rows - 1) // rows
        point = columns * row_blocks * rows * PANEL
        for thread in numba.prange(threads):
            for place in range(
                part(points * point, thread, threads), part(points * point, thread + 1, threads)
            ):
                total = sums[0, place]
                for other in range(1, shares):
                    total += sums[other, place]
                sums[0, place] = total
        for thread in numba.prange(threads):
            own = scratch[thread]
            for item in range(
                part(columns * channels, thread, threads),
                part(columns * channels, thread + 1, threads),
            ):
                column, c = item // channels, item % channels
                row = c - min(c // rows * rows, channels - rows)
                begin = (column * row_blocks + c // rows) * rows * PANEL
                begin += row * widths[column] * LANES
                for vector in range(widths[column]):
                    square_taps_tile(outputs, taps, own, sums[0], begin + vector * LANES, point)
                    for lane in range(LANES):
                        k = starts[column] + vector * LANES + lane
                        if k < len(of_filter) and of_filter[k] == column:
                            for tap in range(area):
                                out[(k * channels + c) * area + tap] = own[tap, lane]

    return write_taps
