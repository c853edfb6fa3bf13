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
from vectorized_ops.numba.emit.bfloat16 import element, store_element
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.raw_arrays import stack_vector
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.product_tiles import pixel_products_tile

CHUNK = 16
"""Images are multiples of it, so that it divides a pixel."""

_VECTORS = CHUNK // LANES

SCRATCH = 3
"""Maps of a chunk that a thread keeps."""


@kernel
def _window_sums(
    left: Any,
    left_distance: int,
    right: Any,
    right_distance: int,
    height: int,
    width: int,
    side: int,
    lines: Any,
    ones: Any,
    out: Any,
) -> None:
    """Write sums over windows of left * right, by way of those along lines."""
    around, row = side // 2, width * CHUNK
    for y in range(height):
        for x in range(width):
            first, last = max(x - around, 0), min(x + around + 1, width)
            place, near = (y * width + x) * CHUNK, y * width + first
            pixel_products_tile(
                lines, place, lines, place, left, near * left_distance, left_distance, right,
                near * right_distance, right_distance, last - first, _VECTORS, False, False, False,
            )  # fmt: skip
    for y in range(height):
        first, last = max(y - around, 0), min(y + around + 1, height)
        for x in range(width):
            place = (y * width + x) * CHUNK
            pixel_products_tile(
                out, place, out, place, lines, (first * width + x) * CHUNK, row, ones, 0, 0,
                last - first, _VECTORS, False, False, False,
            )  # fmt: skip


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


@kernel
def _scale(values: Any, powers: Any, out: Any) -> None:
    for i in range(CHUNK):
        store_element(out, i, element(values, i) * powers[i])


@kernel
def _respond(values: Any, gradient: Any, powers: Any, scales: Any) -> None:
    """Write g * s^-beta in place of the power, and g * x * s^(-beta - 1) in place of s."""
    for i in range(CHUNK):
        powers[i] *= element(gradient, i)
        scales[i] = powers[i] * element(values, i) / scales[i]


@kernel
def _deliver(
    values: Any, direct: Any, sums: Any, slope: Any, out: Any, mask: Any, add: bool, masked: bool
) -> None:
    zero = np.float32(0.0)
    for i in range(CHUNK):
        result = direct[i] - slope * element(values, i) * sums[i]
        result += element(out, i) if add else zero
        store_element(out, i, zero if masked and element(mask, i) <= zero else result)


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
        lines, sums = own[:size], own[size : 2 * size]
        ones = stack_vector(CHUNK, np.float32)
        ones[:] = np.float32(1.0)
        for chunk in range(part(chunks, thread, threads), part(chunks, thread + 1, threads)):
            first = chunk * CHUNK
            begin = values[first:]
            _window_sums(begin, distance, begin, distance, height, width, side, lines, ones, sums)
            _powers(sums, factor, beta, size, lines)
            for pixel in range(pixels):
                source, target = first + pixel * distance, first + pixel * out_distance
                _scale(values[source:], sums[pixel * CHUNK :], out[target:])


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
    size, slope = pixels * CHUNK, np.float32(2.0) * beta * factor
    for thread in numba.prange(threads):
        own = scratch[thread * SCRATCH * size : (thread + 1) * SCRATCH * size]
        spread, lines, powers = own[:size], own[size : 2 * size], own[2 * size :]
        ones = stack_vector(CHUNK, np.float32)
        ones[:] = np.float32(1.0)
        for chunk in range(part(chunks, thread, threads), part(chunks, thread + 1, threads)):
            first = chunk * CHUNK
            begin = values[first:]
            _window_sums(begin, distance, begin, distance, height, width, side, lines, ones, powers)
            _powers(powers, factor, beta, size, spread)
            for pixel in range(pixels):
                source, above = first + pixel * distance, first + pixel * gradient_distance
                place = pixel * CHUNK
                _respond(values[source:], gradient[above:], powers[place:], spread[place:])
            _window_sums(spread, CHUNK, ones, 0, height, width, side, lines, ones, spread)
            for pixel in range(pixels):
                source, target = first + pixel * distance, first + pixel * out_distance
                place, cut = pixel * CHUNK, first + pixel * mask_distance
                _deliver(
                    values[source:], powers[place:], spread[place:], slope, out[target:],
                    mask[cut:], add, masked,
                )  # fmt: skip
