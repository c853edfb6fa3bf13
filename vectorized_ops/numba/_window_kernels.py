"""Maximum pooling with stride 1, line by line: see `_maxima_tiles` and `_winners_tiles`.

Channels are taken in strips, so that the lines that wait stay in a cache of the core. Threads share
the lines of all strips, in this order, evenly among them, and begin with those that the windows of
their first line share with the line before. Arrays are flat, each with the distance between its
neighbouring pixels; the scratches are each thread's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba

from vectorized_ops.layout import IMAGE_LANES
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._maxima_tiles import joined_maxima_tile, line_maxima_tile
from vectorized_ops.numba._streaming import finish_stores
from vectorized_ops.numba._threads import part
from vectorized_ops.numba._winners_tiles import delivered_tile, line_winners_tile
from vectorized_ops.numba.compiler import parallel_kernel

STRIP = 32
"""Channels of 16 images taken at a time: three lines of 28 pixels of maxima wait in 215 KB."""

STRIP_SIZE = STRIP * IMAGE_LANES


@functools.cache
def maxima_kernel(lines: int, columns: int) -> Callable[..., None]:
    """Return the kernel for windows of lines x columns pixels.

    `across` is the table of `window_blocks`; values and places are (T, lines * windows *
    STRIP_SIZE), tables (T, 2 * lines), `windows` and `width` the pixels side by side.
    """

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
        across: Any,
        past: bool,
        values: Any,
        places: Any,
        tables: Any,
    ) -> None:
        size, threads, entries = block // IMAGE_LANES, len(values), across.shape[1]
        strips, blocks = (size + STRIP - 1) // STRIP, len(across)
        for thread in numba.prange(threads):
            first, ready = part(strips * outputs, thread, threads), 0
            for number in range(first, part(strips * outputs, thread + 1, threads)):
                strip, output = number // outputs, number % outputs
                begin = part(size, strip, strips) * IMAGE_LANES
                count = part(size, strip + 1, strips) * IMAGE_LANES - begin
                top = output - padding
                if number == first or output == 0:
                    ready = max(top, 0)
                for line in range(ready, min(top + lines, height)):
                    here = line * width * distance + begin
                    below = here + (width * distance if line + 1 < height else 0)
                    for now in range(blocks):
                        wraps = now + 1 == blocks
                        line_maxima_tile(
                            columns, values[thread],
                            (line % lines * windows + across[now, 0]) * count, places[thread],
                            images, here, below if wraps else here, distance, across, now * entries,
                            0 if wraps else (now + 1) * entries, count // LANES,
                        )  # fmt: skip
                ready = min(top + lines, height)
                for i in range(lines):
                    line = min(max(top + i, 0), height - 1)
                    tables[thread, i] = line % lines * windows * count
                    tables[thread, lines + i] = (line - top) * columns
                start = output * windows
                joined_maxima_tile(
                    lines, out, start * out_distance + begin, out_distance, which,
                    start * which_distance + begin, which_distance, values[thread], places[thread],
                    tables[thread], windows, count // LANES, past,
                )  # fmt: skip
            finish_stores()

    return maxima


@functools.cache
def winners_kernel(lines: int, columns: int) -> Callable[..., None]:
    """Return the kernel of the gradient for windows of lines x columns pixels.

    `across` is the table of `pixel_blocks`; sums are (T, lines * width * STRIP_SIZE), tables
    (T, 2 * lines), `outputs` and `windows` the lines of windows and how many are side by side.
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
        across: Any,
        add: bool,
        masked: bool,
        past: bool,
        sums: Any,
        tables: Any,
    ) -> None:
        size, threads, entries = block // IMAGE_LANES, len(sums), across.shape[1]
        strips, blocks = (size + STRIP - 1) // STRIP, len(across)
        for thread in numba.prange(threads):
            first, ready = part(strips * height, thread, threads), 0
            for number in range(first, part(strips * height, thread + 1, threads)):
                strip, target = number // height, number % height
                begin = part(size, strip, strips) * IMAGE_LANES
                count = part(size, strip + 1, strips) * IMAGE_LANES - begin
                begins = number == first or target == 0
                oldest = max(target + padding - lines + 1, 0)
                if begins:
                    ready = oldest
                for line in range(ready, min(target + padding + 1, outputs)):
                    for i in range(lines):  # line - padding may be as low as 1 - lines
                        slot = (line - padding + i + lines) % lines
                        tables[thread, i] = slot * width * count
                    here, step = line * windows, windows if line + 1 < outputs else 0
                    for now in range(blocks):
                        wraps = now + 1 == blocks
                        below = here + step if wraps else here
                        line_winners_tile(
                            lines, columns, sums[thread], across[now, 0] * count, tables[thread],
                            begins and line == oldest, gradient, here * gradient_distance + begin,
                            below * gradient_distance + begin, gradient_distance, which,
                            here * which_distance + begin, below * which_distance + begin,
                            which_distance, nowhere, across, now * entries,
                            0 if wraps else (now + 1) * entries, count // LANES,
                        )  # fmt: skip
                ready = min(target + padding + 1, outputs)
                start = target * width
                delivered_tile(
                    out, start * out_distance + begin, out_distance, mask,
                    start * mask_distance + begin, mask_distance, sums[thread],
                    target % lines * width * count, width, count // LANES, add, masked, past,
                )  # fmt: skip
            finish_stores()

    return winners
