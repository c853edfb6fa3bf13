"""Maximum pooling of small windows, line by line: see `max_forward_tiles` and `max_backward_tiles`.

Channels are taken in strips, of 16 images each, short enough that waiting lines stay in the core's
cache. The lines of all strips, in order, are divided evenly among the threads. A thread begins with
the lines that the windows of its first line share with the line before. Arrays are flat, each with
the distance between its neighbouring pixels; each thread has scratch memory of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba

from vectorized_ops.layout import IMAGE_LANES
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.pooling.blocks import READ
from vectorized_ops.numba.kernels.pooling.max_backward_tiles import (
    delivered_tile,
    line_winners_tile,
)
from vectorized_ops.numba.kernels.pooling.max_forward_tiles import (
    joined_maxima_tile,
    line_maxima_tile,
)

TABLE = 6 * READ
"""Entries of what a thread tells the tiles of the lines that they are at."""


@kernel
def _within(line: int, height: int) -> int:
    """Return the line of the image that stands for one that may lie outside."""
    return min(max(line, 0), height - 1)


@kernel
def _lines_of_strip(
    number: int, end: int, lines: int, size: int, strips: int
) -> tuple[int, int, int, int]:
    """Return where the strip of line `number` of all strips begins in a pixel, and its elements.

    And its lines from there on of those before `end`: the first, and the one behind the last.
    """
    strip, first = number // lines, number % lines
    begin = part(size, strip, strips) * IMAGE_LANES
    count = part(size, strip + 1, strips) * IMAGE_LANES - begin
    return begin, count, first, min(end - strip * lines, lines)


@functools.cache
def maxima_kernel(lines: int, columns: int, stride: int) -> Callable[..., None]:
    """Return the kernel for windows of lines x columns pixels, `stride` apart.

    `across` is the table of `window_blocks`, `windows` and `width` the pixels side by side; values
    and places are (T, (lines - stride) * windows * strip * IMAGE_LANES) or longer, tables
    (T, TABLE).
    """
    overlap = lines - stride

    @parallel_kernel
    def maxima(
        images: Any,
        distance: int,
        out: Any,
        out_distance: int,
        which: Any,
        which_distance: int,
        height: int,
        width: int,
        padding: int,
        outputs: int,
        windows: int,
        block: int,
        strip: int,
        across: Any,
        past: bool,
        values: Any,
        places: Any,
        tables: Any,
    ) -> None:
        size, threads, entries = block // IMAGE_LANES, len(values), across.shape[1]
        strips, blocks, line_distance = -(-size // strip), len(across), width * distance
        for thread in numba.prange(threads):
            number = part(strips * outputs, thread, threads)
            end, table = part(strips * outputs, thread + 1, threads), tables[thread]
            while number < end:
                begin, count, output, last = _lines_of_strip(number, end, outputs, size, strips)
                number, length = number + last - output, windows * count
                for i in range(overlap):
                    here = _within(output * stride - padding + i, height) * line_distance + begin
                    for now in range(blocks):
                        later = min(now + 1, blocks - 1) * entries
                        line_maxima_tile(
                            columns, stride, values[thread], i * length, places[thread], images,
                            here, distance, across, now * entries, later, count // LANES,
                        )  # fmt: skip
                while output < last:
                    top, rows = output * stride - padding, min(READ // stride, last - output)
                    read = rows * stride
                    for i in range(read):
                        here = _within(top + overlap + i, height)
                        below = _within(top + overlap + read + i, height)
                        table[i] = here * line_distance + begin
                        table[READ + i] = below * line_distance + begin
                    for i in range(overlap + read):
                        table[2 * READ + i] = (_within(top + i, height) - top) * columns
                    start = output * windows
                    for now in range(blocks):
                        wraps = now + 1 == blocks
                        joined_maxima_tile(
                            rows, lines, columns, stride, out, start * out_distance + begin,
                            windows * out_distance, out_distance, which,
                            start * which_distance + begin, windows * which_distance,
                            which_distance, values[thread], places[thread], length, images, table,
                            READ if wraps else 0, distance, across, now * entries,
                            0 if wraps else (now + 1) * entries, count // LANES, past,
                        )  # fmt: skip
                    output += rows
            finish_stores()

    return maxima


@functools.cache
def winners_kernel(lines: int, columns: int) -> Callable[..., None]:
    """Return the kernel of the gradient for windows of lines x columns pixels.

    `across` is the table of `pixel_blocks`, `outputs` and `windows` the lines of windows and how
    many are side by side; sums are (T, ((lines - 1) * width + 1) * strip * IMAGE_LANES), tables
    (T, TABLE).
    """

    @parallel_kernel
    def winners(
        gradient: Any,
        gradient_distance: int,
        which: Any,
        which_distance: int,
        out: Any,
        out_distance: int,
        mask: Any,
        mask_distance: int,
        nowhere: Any,
        height: int,
        width: int,
        padding: int,
        outputs: int,
        windows: int,
        block: int,
        strip: int,
        across: Any,
        add: bool,
        masked: bool,
        past: bool,
        sums: Any,
        tables: Any,
    ) -> None:
        size, threads, entries = block // IMAGE_LANES, len(sums), across.shape[1]
        strips, blocks, spare = -(-size // strip), len(across), sums.shape[1] - strip * IMAGE_LANES
        for thread in numba.prange(threads):
            number = part(strips * height, thread, threads)
            end, table = part(strips * height, thread + 1, threads), tables[thread]
            while number < end:
                begin, count, first, last = _lines_of_strip(number, end, height, size, strips)
                number, length = number + last - first, width * count
                line = max(first + padding - lines + 1, 0)
                last_line, target = min(last + padding, outputs), line - padding
                sums[thread, : (lines - 1) * length] = 0
                while line < last_line:
                    rows = min(READ, last_line - line)
                    for i in range(rows):
                        below = min(line + rows + i, outputs - 1) * windows
                        pixels = max(target + i, 0) * width
                        table[i] = (line + i) * windows * gradient_distance + begin
                        table[READ + i] = (line + i) * windows * which_distance + begin
                        table[2 * READ + i] = below * gradient_distance + begin
                        table[3 * READ + i] = below * which_distance + begin
                        table[4 * READ + i] = pixels * out_distance + begin
                        table[5 * READ + i] = pixels * mask_distance + begin
                    delivers = min(max(first - target, 0), rows)
                    for now in range(blocks):
                        wraps = now + 1 == blocks
                        line_winners_tile(
                            rows, lines, columns, out, out_distance, mask, mask_distance,
                            sums[thread], length, spare, gradient, gradient_distance, which,
                            which_distance, table, 1 if wraps else 0, delivers, nowhere, across,
                            now * entries, 0 if wraps else (now + 1) * entries, count // LANES,
                            add, masked, past,
                        )  # fmt: skip
                    line += rows
                    target += rows
                for i in range(max(first - target, 0), last - target):
                    start = (target + i) * width
                    delivered_tile(
                        out, start * out_distance + begin, out_distance, mask,
                        start * mask_distance + begin, mask_distance, sums[thread],
                        i * length, width, count // LANES, add, masked, past,
                    )  # fmt: skip
            finish_stores()

    return winners
