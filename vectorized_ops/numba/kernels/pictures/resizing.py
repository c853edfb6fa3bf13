"""Lines of a picture in another size: sums of lines, and then of their pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import array_at
from vectorized_ops.numba.kernels.pictures.copying import PLANAR, REVERSED
from vectorized_ops.numba.kernels.pictures.float_tiles import weighted_pixels_tile


@kernel
def tap_table(
    size: int, begin: float, length: float, flipped: bool, starts: Any, weights: Any
) -> tuple[int, int, int]:
    """Write which pixels of a line count for each of `starts` new ones, and their weights.

    See `vectorized_ops.reference.pictures.interpolation`. Returns how many weights there are of
    each, zeros behind those that it has; the first pixel that counts, and the last one plus 1. The
    starts count from the first. With `flipped` the last new pixel is the first of the table.
    """
    count, number, first, last = len(starts), 1, size, 0
    for i in range(count):
        start, found = taps(size, begin, length, count, i, weights)
        number = max(number, found)
        if found > 0:
            first, last = min(first, start), max(last, start + found)
    first = min(first, last)
    for i in range(count):
        own = weights[(count - 1 - i if flipped else i) * number :][:number]
        start, found = taps(size, begin, length, count, i, own)
        for j in range(found, number):
            own[j] = np.float32(0.0)
        starts[count - 1 - i if flipped else i] = start - first if found > 0 else 0
    return number, first, last


@kernel
def taps(
    size: int, begin: float, length: float, count: int, i: int, weights: Any
) -> tuple[int, int]:
    """Write the weights of new pixel `i`; return the first old pixel that counts, and how many."""
    step = length / count
    reach = max(step, 1.0)
    first, last = min(0, math.floor(begin)), max(size, math.ceil(begin + length))
    centre = begin + (i + 0.5) * step
    low = max(first, math.floor(centre - reach + 0.5))
    high = min(last, math.floor(centre + reach + 0.5))
    total = 0.0
    for j in range(low, high):
        total += max(0.0, 1.0 - abs((j + 0.5 - centre) / reach))
    start, stop = max(low, 0), min(high, size)
    for j in range(start, stop):
        weights[j - start] = np.float32(max(0.0, 1.0 - abs((j + 0.5 - centre) / reach)) / total)
    return start, max(0, stop - start)


@kernel
def summed_lines(address: int, distance: int, weights: Any, count: int, out: Any) -> None:
    """Write the weighted sum of `count` lines of bytes, which begin `distance` apart."""
    size = len(out)
    if count == 0:
        for i in range(size):
            out[i] = np.float32(0.0)
    for tap in range(0, count, 2):
        weight, line = weights[tap], array_at(address + tap * distance, size, np.uint8)
        if tap + 1 == count and tap == 0:
            for i in range(size):
                out[i] = weight * np.float32(line[i])
        elif tap + 1 == count:
            for i in range(size):
                out[i] += weight * np.float32(line[i])
        else:
            other = weights[tap + 1]
            below = array_at(address + (tap + 1) * distance, size, np.uint8)
            if tap == 0:
                for i in range(size):
                    out[i] = weight * np.float32(line[i]) + other * np.float32(below[i])
            else:
                for i in range(size):
                    out[i] = (out[i] + weight * np.float32(line[i])) + other * np.float32(below[i])


@kernel
def resized_line(
    address: int,
    distance: int,
    plane: int,
    layout: int,
    of_lines: Any,
    count: int,
    size: int,
    starts: Any,
    weights: Any,
    number: int,
    channels: int,
    sums: Any,
    out: Any,
) -> None:
    """Write a line as sums by `weights` of what the sums of `count` lines by `of_lines` are.

    `address` is that of the first of `size` pixels that count. Behind the sums' first half, and the
    second one, there is room for `number` pixels.
    """
    values = sums[: size * channels]
    if layout != PLANAR or channels == 1:
        summed_lines(address, distance, of_lines, count, values)
    else:
        half = len(sums) // 2
        for c in range(channels):
            own = sums[half + c * size :][:size]
            summed_lines(address + c * plane, distance, of_lines, count, own)
        red, green, blue = sums[half:], sums[half + size :], sums[half + 2 * size :]
        for i in range(size):
            values[3 * i], values[3 * i + 1], values[3 * i + 2] = red[i], green[i], blue[i]
    if channels == 3:
        weighted_pixels_tile(out, sums, starts, weights, number, len(starts), layout == REVERSED)
        return
    for x in range(len(starts)):
        total, begin, own = np.float32(0.0), starts[x], weights[x * number :]
        for tap in range(number):
            total += own[tap] * sums[begin + tap]
        out[x] = total
