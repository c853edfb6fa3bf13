"""Depthwise convolution: loops over blocks of channels, strips, lines, and groups of pixels.

Forward and backward-data are one loop with different tables (`windows`). Memory is (H, W, C, N);
all arrays are flat. A strip of columns of a block of channels is taken through all lines of a
thread. The strip's lines under a window are copied into a ring, where they stay in the second-level
cache: in the inputs, pixels often lie a power of two apart, and would leave most of a cache's sets
empty.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.depthwise_tiles import copied_tile
from vectorized_ops.numba.kernels.convolution.windows import (
    BEGIN,
    COLUMN,
    END,
    FIRST,
    LEFT,
    PLACES,
    REACH,
    RESULTS,
    RIGHT,
)
from vectorized_ops.numba.moments import SUMMED_VALUES, SUMS, join_sums

_SUMMED_PRODUCTS = 4 * SUMMED_VALUES
"""Products of a weight that are added up in float32 before the sums go into doubles."""


@kernel
def _bring(
    buffer: Any,
    ring: int,
    ring_width: int,
    step: int,
    inputs: Any,
    distance: int,
    width: int,
    strip: Any,
    channel: int,
    floats: int,
    first: int,
    last: int,
    brought: int,
) -> int:
    """Copy `floats` of each of the strip's pixels, from `channel` on, into the ring.

    Of lines first..last-1. Return how many lines are there or behind, `brought` being those before.
    """
    for line in range(first, last):
        for pixel in range(strip[RIGHT] - strip[LEFT]):
            copied_tile(
                buffer, (line % ring * ring_width + pixel) * step, inputs,
                (line * width + strip[LEFT] + pixel) * distance + channel, 2 * distance,
                floats // LANES,
            )  # fmt: skip
    return max(brought, last)


@kernel
def _coming(distance: int, width: int, line: int, group: Any, channel: int) -> int:
    """Return where a line begins to be read by a group of pixels; it may be none of the inputs'."""
    column = max(0, group[PLACES]) if group[REACH] else 0
    return (line * width + column) * distance + channel


@kernel
def _fill(
    table: Any,
    group: Any,
    met: Any,
    first: int,
    count: int,
    ring: int,
    width: int,
    step: int,
    left: int,
    weights: int,
    kernel_columns: int,
) -> None:
    """Write the table of a tile: the places of its inputs in the ring, and of weights.

    A line of the ring begins with column `left`. Behind the ring are zeros, which are outside the
    image.
    """
    reach = group[REACH]
    for i in range(count):
        line, tap = met[2 * (first + i)], met[2 * (first + i) + 1]
        begin, at = line % ring * width - left, i * (reach + 1)
        for column in range(reach):
            place = group[PLACES + column]
            table[at + column] = (ring * width if place < 0 else begin + place) * step
        table[at + reach] = weights + tap * kernel_columns + group[FIRST]


@parallel_kernel
def correlate(
    tiles: Any,
    groups: Any,
    strips: Any,
    met: Any,
    first: Any,
    count: Any,
    lowest: Any,
    out: Any,
    out_distance: int,
    width: int,
    step: int,
    images: int,
    inputs: Any,
    distance: int,
    inputs_width: int,
    buffers: Any,
    ring: int,
    ring_width: int,
    ring_step: int,
    weights: Any,
    kernel_columns: int,
    turn: int,
    bias: Any,
    mask: Any,
    mask_distance: int,
    mode: int,
    tables: Any,
    block: int,
    by_lines: int,
    by_blocks: int,
    with_moments: bool,
    sums: Any,
    pivots: Any,
    totals: Any,
    real: Any,
    real_images: int,
) -> None:
    """Write results; with moments also those of them, each thread its own (see `moments`).

    `tables` and `buffers` (T, ...) are each thread's, a buffer with `ring` lines of inputs.
    """
    channels, lines = len(bias), len(first)
    blocks, weights_step = (channels + block - 1) // block, len(weights) // channels
    for thread in numba.prange(by_lines * by_blocks):
        mine, share = thread // by_blocks, thread % by_blocks
        first_line, last_line = part(lines, mine, by_lines), part(lines, mine + 1, by_lines)
        own_sums, own_pivots, table = sums[thread], pivots[thread], tables[thread]
        buffer = buffers[thread]
        buffer[ring * ring_width * ring_step :] = 0.0
        if with_moments:
            own_sums[:] = 0.0
            totals[thread] = 0.0
        for item in range(part(blocks, share, by_blocks), part(blocks, share + 1, by_blocks)):
            c, summed = item * block, 0
            number = min(block, channels - c)
            for strip in strips:
                brought = 0
                for line in range(first_line, last_line):
                    last = met[2 * (first[line] + count[line] - 1)] if count[line] else -1
                    brought = _bring(
                        buffer, ring, ring_width, ring_step, inputs, distance, inputs_width, strip,
                        c * images, number * images, max(brought, lowest[line]), last + 1, brought,
                    )  # fmt: skip
                    for which in range(strip[BEGIN], strip[END]):
                        group = groups[which]
                        pixel = line * width + group[COLUMN]
                        _fill(
                            table, group, met, first[line], count[line], ring, ring_width,
                            ring_step, strip[LEFT], c * weights_step, kernel_columns,
                        )  # fmt: skip
                        call_tile(
                            tiles[which], out, pixel * out_distance + c * images,
                            step * out_distance, images, bias, c, weights, weights_step, turn,
                            buffer, table, count[line] * (group[REACH] > 0), mask,
                            pixel * mask_distance + c * images, step * mask_distance, mode, number,
                            with_moments, own_sums, c * SUMS, own_pivots, c,
                            line == first_line and which == 0, real, inputs,
                            _coming(distance, inputs_width, brought, group, c * images),
                            distance, inputs_width * distance,
                        )  # fmt: skip
                    summed += strip[RESULTS]
                    enough = line == first_line or summed * images >= SUMMED_VALUES
                    if with_moments and (enough or line == last_line - 1):
                        join_sums(
                            own_sums, own_pivots, totals[thread], c, c + number, summed, real_images
                        )
                        summed = 0
        finish_stores()


@parallel_kernel
def weights_gradient(
    tiles: Any,
    groups: Any,
    strips: Any,
    met: Any,
    first: Any,
    count: Any,
    lowest: Any,
    gradient: Any,
    gradient_distance: int,
    width: int,
    step: int,
    images: int,
    inputs: Any,
    distance: int,
    inputs_width: int,
    buffers: Any,
    ring: int,
    ring_width: int,
    ring_step: int,
    kernel_columns: int,
    tables: Any,
    group: int,
    block: int,
    by_lines: int,
    by_blocks: int,
    sums: Any,
    totals: Any,
    weights_out: Any,
    bias_out: Any,
) -> None:
    """Write the gradients of weights (K, group, R*S), and of the bias unless it is empty.

    Groups have `group` filters and as many channels, and are not cut by a block. `sums`
    (T, block * group, R*S + 1, LANES) and the doubles `totals` (T, K * group, R*S + 1) are each
    thread's, too.
    """
    channels, lines, taps = totals.shape[1] // group, len(first), totals.shape[2] - 1
    sums_step = (taps + 1) * LANES
    blocks = (channels + block - 1) // block
    for thread in numba.prange(by_lines * by_blocks):
        mine, share = thread // by_blocks, thread % by_blocks
        own, table, buffer = sums[thread], tables[thread], buffers[thread]
        buffer[ring * ring_width * ring_step :] = 0.0
        own[:] = 0.0
        totals[thread] = 0.0
        for item in range(part(blocks, share, by_blocks), part(blocks, share + 1, by_blocks)):
            c, summed = item * block, 0
            number = min(block, channels - c)
            for strip in strips:
                brought = 0
                for line in range(part(lines, mine, by_lines), part(lines, mine + 1, by_lines)):
                    last = met[2 * (first[line] + count[line] - 1)] if count[line] else -1
                    brought = _bring(
                        buffer, ring, ring_width, ring_step, inputs, distance, inputs_width, strip,
                        c * images, number * images, max(brought, lowest[line]), last + 1, brought,
                    )  # fmt: skip
                    for which in range(strip[BEGIN], strip[END]):
                        pixels = groups[which]
                        _fill(
                            table, pixels, met, first[line], count[line], ring, ring_width,
                            ring_step, strip[LEFT], 0, kernel_columns,
                        )  # fmt: skip
                        above = (line * width + pixels[COLUMN]) * gradient_distance + c * images
                        coming = _coming(distance, inputs_width, brought, pixels, c * images)
                        for channel in range(group):
                            call_tile(
                                tiles[which], own, sums_step, gradient, above,
                                step * gradient_distance, width * gradient_distance, images, buffer,
                                table, count[line], number, inputs, coming, distance,
                                inputs_width * distance, group, channel,
                            )  # fmt: skip
                    summed += strip[RESULTS]
                    if summed * images >= _SUMMED_PRODUCTS:
                        _flush(own, totals[thread, c * group : (c + number) * group])
                        summed = 0
            _flush(own, totals[thread, c * group : (c + number) * group])
    for c in numba.prange(channels):
        for i in range(c * group, (c + 1) * group):
            for tap in range(taps):
                weights_out[i * taps + tap] = _over_threads(totals, i, tap)
        if len(bias_out):
            bias_out[c] = _over_threads(totals, c * group, taps)


@kernel
def _over_threads(totals: Any, channel: int, tap: int) -> float:
    total = 0.0
    for thread in range(len(totals)):
        total += totals[thread, channel, tap]
    return total


@kernel
def _flush(sums: Any, totals: Any) -> None:
    """Add the sums of vectors to the doubles, and clear them."""
    taps = totals.shape[1]
    for c in range(len(totals)):
        for tap in range(taps):
            begin, total = (c * taps + tap) * LANES, 0.0
            for lane in range(LANES):
                total += np.float64(sums[begin + lane])
                sums[begin + lane] = 0.0
            totals[c, tap] += total
