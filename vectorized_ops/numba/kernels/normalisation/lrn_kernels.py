"""Loops over the pixels of local response normalisation.

Arrays are flat, each with the distance between its neighbouring pixels; `number` images lie side by
side. s = bias + factor * sum of x^2 over the window.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.bfloat16 import element, store_element
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.normalisation.lrn_tiles import (
    response_gradients_tile,
    responses_tile,
)

SCRATCH = 4
"""Values of each channel and image of a pixel that a thread of the others keeps at a time."""


@parallel_kernel
def forward(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    pixels: int,
    channels: int,
    number: int,
    factor: Any,
    bias: Any,
    past: bool,
    threads: int,
) -> None:
    """Write x * s^-3/4, s summed over SIZE of the channels."""
    for thread in numba.prange(threads):
        for pixel in range(part(pixels, thread, threads), part(pixels, thread + 1, threads)):
            responses_tile(
                out, pixel * out_distance, values, pixel * distance, number, channels, factor, bias,
                past,
            )  # fmt: skip
        finish_stores()


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
    pixels: int,
    channels: int,
    number: int,
    factor: Any,
    bias: Any,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    """Deliver the gradient of the values for the exponent 3/4 and windows of SIZE channels."""
    for thread in numba.prange(threads):
        for pixel in range(part(pixels, thread, threads), part(pixels, thread + 1, threads)):
            response_gradients_tile(
                out, pixel * out_distance, mask, pixel * mask_distance, values, pixel * distance,
                gradient, pixel * gradient_distance, number, channels, factor, bias, add, masked,
                past,
            )  # fmt: skip
        finish_stores()


@kernel
def _window_sums(
    values: Any, channel: int, channels: int, number: int, size: int, out: Any
) -> None:
    """Write the sums over the window around a channel."""
    out[:] = np.float32(0.0)
    begin, end = max(channel - size // 2, 0), min(channel + size // 2 + 1, channels)
    for neighbour in range(begin, end):
        row = values[neighbour * number : (neighbour + 1) * number]
        for i in range(number):
            out[i] += row[i]


@kernel
def _write_squares(values: Any, first: int, out: Any) -> None:
    for i in range(len(out)):
        value = element(values, first + i)
        out[i] = value * value


@parallel_kernel
def any_forward(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    pixels: int,
    channels: int,
    number: int,
    size: int,
    factor: Any,
    beta: Any,
    bias: Any,
    scratch: Any,
) -> None:
    """Write x * s^-beta; scratch (T, SCRATCH, C*N)."""
    threads = len(scratch)
    for thread in numba.prange(threads):
        squares, sums = scratch[thread, 0], scratch[thread, 1, :number]
        for pixel in range(part(pixels, thread, threads), part(pixels, thread + 1, threads)):
            _write_squares(values, pixel * distance, squares)
            for c in range(channels):
                _window_sums(squares, c, channels, number, size, sums)
                source, target = pixel * distance + c * number, pixel * out_distance + c * number
                for i in range(number):
                    total = bias + factor * sums[i]
                    value = element(values, source + i)
                    store_element(out, target + i, np.float32(value * total**-beta))


@parallel_kernel
def any_backward(
    values: Any,
    distance: int,
    gradient: Any,
    gradient_distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    pixels: int,
    channels: int,
    number: int,
    size: int,
    factor: Any,
    beta: Any,
    bias: Any,
    add: bool,
    masked: bool,
    scratch: Any,
) -> None:
    """Deliver g * s^-beta - 2*beta*factor * x * sum over the window of g * x * s^(-beta - 1)."""
    threads, slope, zero = len(scratch), np.float32(2.0) * beta * factor, np.float32(0.0)
    for thread in numba.prange(threads):
        squares, direct, spread = scratch[thread, 0], scratch[thread, 1], scratch[thread, 2]
        sums = scratch[thread, 3, :number]
        for pixel in range(part(pixels, thread, threads), part(pixels, thread + 1, threads)):
            source, above = pixel * distance, pixel * gradient_distance
            _write_squares(values, source, squares)
            for c in range(channels):
                _window_sums(squares, c, channels, number, size, sums)
                for i in range(number):
                    place, total = c * number + i, bias + factor * sums[i]
                    direct[place] = element(gradient, above + place) * total**-beta
                    spread[place] = direct[place] * element(values, source + place) / total
            for c in range(channels):
                _window_sums(spread, c, channels, number, size, sums)
                for i in range(number):
                    place = c * number + i
                    result = direct[place] - slope * element(values, source + place) * sums[i]
                    if add:
                        result += element(out, pixel * out_distance + place)
                    if masked and element(mask, pixel * mask_distance + place) <= zero:
                        result = zero
                    store_element(out, pixel * out_distance + place, result)
