"""Loops over the pixels of batch normalisation, and what it computes once per channel.

Arrays are flat, each with the distance between its neighbouring pixels. `tile` is a function of
`batch_tiles`, `low` and `high` are those of its epilogue. Threads share the channels
of all pixels, in memory order, evenly among them.
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
from vectorized_ops.numba.kernels.arithmetic import batch_normalisation as arithmetic
from vectorized_ops.numba.kernels.normalisation import batch_tiles as tiles

CONSTANTS, SUMS = arithmetic.TABLE_ROWS, tiles.SUMS

_NEAR_VALUES, _NEAR_GRADIENTS = tiles.NEAR_VALUES, tiles.NEAR_GRADIENTS

_SUMMED_PIXELS = 64
"""Pixels added up in float32 before the sums go into doubles."""


@kernel
def prepare(
    mean: Any, variance: Any, scale: Any, shift: Any, epsilon: float, constants: Any
) -> None:
    """Write what `forward` and `gradient_sums` need to know of each channel."""
    for c in range(len(mean)):
        arithmetic.write_forward(constants, c, mean[c], variance[c], scale[c], shift[c], epsilon)


@kernel
def running_gradient(running: Any, found: Any, factor: Any, out: Any) -> None:
    """Write running - factor * found, rounded twice."""
    for c in range(len(out)):
        out[c] = running[c] - factor * found[c]


@parallel_kernel
def statistics(
    values: Any,
    distance: int,
    pixels: int,
    images: int,
    real: Any,
    pivots: Any,
    sums: Any,
    totals: Any,
    mean: Any,
    variance: Any,
) -> None:
    """Write mean and variance; sums (T, C*SUMS) and totals (T, C, 2) are each thread's own."""
    threads, channels, row = len(sums), len(mean), len(real)
    samples = min(16, 1 + pixels // 64)
    step = pixels // samples * distance
    for thread in numba.prange(threads):
        first, last = part(channels, thread, threads), part(channels, thread + 1, threads)
        pivots[first:last] = 0.0
        sums[thread] = 0.0
        totals[thread] = 0.0
        for sample in range(samples):
            tiles.moments_tile(
                sums[thread], first * SUMS, values, sample * step + first * row, distance, 1,
                pivots, first, real, last - first, row // LANES,
            )  # fmt: skip
        tiles.flush_tile(sums[thread], totals[thread], channels)
        for c in range(first, last):
            pivots[c] = totals[thread, c, 0] / (samples * images)
    for thread in numba.prange(threads):
        totals[thread] = 0.0
        first = part(pixels * channels, thread, threads)
        last = part(pixels * channels, thread + 1, threads)
        _own_moments(values, distance, pivots, real, sums[thread], totals[thread], first, last)
    for c in numba.prange(channels):
        mean[c], variance[c] = arithmetic.mean_and_variance(
            pivots[c], _over_threads(totals, c, 0), _over_threads(totals, c, 1), pixels * images
        )


@kernel
def _over_threads(totals: Any, channel: int, which: int) -> float:
    total = 0.0
    for thread in range(len(totals)):
        total += totals[thread, channel, which]
    return total


@kernel
def _together(channels: int, begin: int, left: int, near: int) -> int:
    """Return how many pixels to take together: `near` if as many are left, else 1.

    A processor foresees what is read within a page of memory and no further, but in several pages
    at once.
    """
    return near if begin == 0 and left >= near * channels else 1


@kernel
def _own_moments(
    values: Any,
    distance: int,
    pivots: Any,
    real: Any,
    sums: Any,
    totals: Any,
    first: int,
    last: int,
) -> None:
    channels, row, summed = len(pivots), len(real), 0
    while first < last:
        pixel, begin = first // channels, first % channels
        near = _together(channels, begin, last - first, _NEAR_VALUES)
        count = min(channels - begin, last - first)
        tiles.moments_tile(
            sums, begin * SUMS, values, pixel * distance + begin * row, distance, near, pivots,
            begin, real, count, row // LANES,
        )  # fmt: skip
        first += near * count
        summed += near
        if summed >= _SUMMED_PIXELS:
            tiles.flush_tile(sums, totals, channels)
            summed = 0
    tiles.flush_tile(sums, totals, channels)


@parallel_kernel
def forward(
    tile: int,
    values: Any,
    distance: int,
    addend: Any,
    addend_distance: int,
    out: Any,
    out_distance: int,
    pixels: int,
    row: int,
    constants: Any,
    low: Any,
    high: Any,
    with_addend: bool,
    past: bool,
    threads: int,
) -> None:
    """Write normalised values; `row` is the number of images, padding included."""
    channels = constants.shape[1]
    for thread in numba.prange(threads):
        first = part(pixels * channels, thread, threads)
        last = part(pixels * channels, thread + 1, threads)
        while first < last:
            pixel, begin = first // channels, first % channels
            count = min(channels - begin, last - first)
            call_tile(
                tile, out, pixel * out_distance + begin * row, values,
                pixel * distance + begin * row, addend, pixel * addend_distance + begin * row,
                constants, begin, channels, low, high, count, row // LANES, with_addend, past,
            )  # fmt: skip
            first += count
        finish_stores()


@parallel_kernel
def gradient_sums(
    tile: int,
    values: Any,
    distance: int,
    gradient: Any,
    gradient_distance: int,
    pixels: int,
    images: int,
    real: Any,
    constants: Any,
    low: Any,
    high: Any,
    sums: Any,
    totals: Any,
    scale_out: Any,
    shift_out: Any,
) -> None:
    """Write the gradients of scale and shift, and what `backward` needs to know of each channel."""
    threads, channels = len(sums), constants.shape[1]
    for thread in numba.prange(threads):
        sums[thread] = 0.0
        totals[thread] = 0.0
        first = part(pixels * channels, thread, threads)
        last = part(pixels * channels, thread + 1, threads)
        _own_gradients(
            tile, values, distance, gradient, gradient_distance, constants, low, high, real,
            sums[thread], totals[thread], first, last,
        )  # fmt: skip
    for c in numba.prange(channels):
        total, product = _over_threads(totals, c, 0), _over_threads(totals, c, 1)
        shift_out[c] = total
        scale_out[c] = product * np.float64(constants[arithmetic.INVERSE, c])
        arithmetic.write_backward(constants, c, total, product, pixels * images)


@kernel
def _own_gradients(
    tile: int,
    values: Any,
    distance: int,
    gradient: Any,
    gradient_distance: int,
    constants: Any,
    low: Any,
    high: Any,
    real: Any,
    sums: Any,
    totals: Any,
    first: int,
    last: int,
) -> None:
    channels, row, summed = constants.shape[1], len(real), 0
    while first < last:
        pixel, begin = first // channels, first % channels
        near = _together(channels, begin, last - first, _NEAR_GRADIENTS)
        count = min(channels - begin, last - first)
        call_tile(
            tile, sums, begin * SUMS, values, pixel * distance + begin * row, distance, gradient,
            pixel * gradient_distance + begin * row, gradient_distance, near, constants, begin,
            channels, low, high, real, count, row // LANES,
        )  # fmt: skip
        first += near * count
        summed += near
        if summed >= _SUMMED_PIXELS:
            tiles.flush_tile(sums, totals, channels)
            summed = 0
    tiles.flush_tile(sums, totals, channels)


@parallel_kernel
def backward(
    tile: int,
    values: Any,
    distance: int,
    gradient: Any,
    gradient_distance: int,
    out: Any,
    out_distance: int,
    pixels: int,
    real: Any,
    constants: Any,
    low: Any,
    high: Any,
    add: bool,
    past: bool,
    threads: int,
) -> None:
    """Write, or add to `out`, the gradient of the values; zero in images that only fill up."""
    channels, row = constants.shape[1], len(real)
    for thread in numba.prange(threads):
        first = part(pixels * channels, thread, threads)
        last = part(pixels * channels, thread + 1, threads)
        while first < last:
            pixel, begin = first // channels, first % channels
            count = min(channels - begin, last - first)
            call_tile(
                tile, out, pixel * out_distance + begin * row, values,
                pixel * distance + begin * row, gradient, pixel * gradient_distance + begin * row,
                constants, begin, channels, low, high, real, count, row // LANES, add, past,
            )  # fmt: skip
            first += count
        finish_stores()
