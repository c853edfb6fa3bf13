"""Loops of local response normalisation within a channel.

Arrays are flat, each with the distance between its neighbouring pixels. A pixel has `block` values,
of channels and images; CHUNK of them are followed through all of their map, whose sums over windows
then lie in a cache.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.threads import part

CHUNK = 16
"""Images are multiples of it, so that it divides a pixel."""

SCRATCH = 3
"""Maps of a chunk that a thread keeps."""


@kernel
def _window_sums(values: Any, height: int, width: int, side: int, lines: Any, out: Any) -> None:
    """Write sums over windows of maps (H, W, CHUNK), by way of those along lines."""
    around = side // 2
    for y in range(height):
        for x in range(width):
            place = (y * width + x) * CHUNK
            lines[place : place + CHUNK] = np.float32(0.0)
            for near in range(max(x - around, 0), min(x + around + 1, width)):
                source = (y * width + near) * CHUNK
                for i in range(CHUNK):
                    lines[place + i] += values[source + i]
    for y in range(height):
        first, last = max(y - around, 0), min(y + around + 1, height)
        for x in range(width):
            place = (y * width + x) * CHUNK
            out[place : place + CHUNK] = np.float32(0.0)
            for near in range(first, last):
                source = (near * width + x) * CHUNK
                for i in range(CHUNK):
                    out[place + i] += lines[source + i]


@kernel
def _squares(values: Any, first: int, distance: int, pixels: int, out: Any) -> None:
    for pixel in range(pixels):
        for i in range(CHUNK):
            value = values[first + pixel * distance + i]
            out[pixel * CHUNK + i] = value * value


@kernel
def _powers(sums: Any, factor: Any, beta: Any, size: int, scales: Any) -> None:
    """Write s into `scales`, and s^-beta in place of the sums."""
    one = np.float32(1.0)
    if beta == np.float32(0.75):
        for i in range(size):
            scale = one + factor * sums[i]
            root = np.sqrt(scale)
            scales[i] = scale
            sums[i] = one / (root * np.sqrt(root))
        return
    for i in range(size):
        scale = one + factor * sums[i]
        scales[i] = scale
        sums[i] = scale**-beta


@parallel_kernel
def forward(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    height: int,
    width: int,
    block: int,
    side: int,
    factor: Any,
    beta: Any,
    scratch: Any,
    threads: int,
) -> None:
    """Write x * s^-beta."""
    pixels, chunks = height * width, block // CHUNK
    size = pixels * CHUNK
    for thread in numba.prange(threads):
        own = scratch[thread * SCRATCH * size : (thread + 1) * SCRATCH * size]
        squares, lines, sums = own[:size], own[size : 2 * size], own[2 * size :]
        for chunk in range(part(chunks, thread, threads), part(chunks, thread + 1, threads)):
            first = chunk * CHUNK
            _squares(values, first, distance, pixels, squares)
            _window_sums(squares, height, width, side, lines, sums)
            _powers(sums, factor, beta, size, lines)
            for pixel in range(pixels):
                source, target = first + pixel * distance, first + pixel * out_distance
                for i in range(CHUNK):
                    out[target + i] = values[source + i] * sums[pixel * CHUNK + i]


@parallel_kernel
def backward(
    values: Any,
    distance: int,
    gradient: Any,
    gradient_distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    height: int,
    width: int,
    block: int,
    side: int,
    factor: Any,
    beta: Any,
    add: bool,
    masked: bool,
    scratch: Any,
    threads: int,
) -> None:
    """Deliver g * s^-beta - 2*beta*factor * x * sum over the window of g * x * s^(-beta - 1)."""
    pixels, chunks = height * width, block // CHUNK
    size, slope, zero = pixels * CHUNK, np.float32(2.0) * beta * factor, np.float32(0.0)
    for thread in numba.prange(threads):
        own = scratch[thread * SCRATCH * size : (thread + 1) * SCRATCH * size]
        spread, lines, powers = own[:size], own[size : 2 * size], own[2 * size :]
        for chunk in range(part(chunks, thread, threads), part(chunks, thread + 1, threads)):
            first = chunk * CHUNK
            _squares(values, first, distance, pixels, spread)
            _window_sums(spread, height, width, side, lines, powers)
            _powers(powers, factor, beta, size, spread)
            for pixel in range(pixels):
                source, above = first + pixel * distance, first + pixel * gradient_distance
                for i in range(CHUNK):
                    place = pixel * CHUNK + i
                    power = gradient[above + i] * powers[place]
                    powers[place] = power
                    spread[place] = power * values[source + i] / spread[place]
            _window_sums(spread, height, width, side, lines, spread)
            for pixel in range(pixels):
                source, target = first + pixel * distance, first + pixel * out_distance
                for i in range(CHUNK):
                    place = pixel * CHUNK + i
                    result = powers[place] - slope * values[source + i] * spread[place]
                    if add:
                        result += out[target + i]
                    if masked and mask[first + pixel * mask_distance + i] <= zero:
                        result = zero
                    out[target + i] = result
