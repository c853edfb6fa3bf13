"""Parametric rectified linear units: one read and one write forward, two reads and one write back.

The gradient of the slopes is gathered in the same pass.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray, aligned_zeros, pixels
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.parametric_tiles import (
    parametric_gradient_tile,
    parametric_tile,
)

MOST_PARTS = 32
"""Parts of the pixels that have sums of their own: not as many as threads, so that sums are the
same to the last bit for any number of them."""

_PIXELS = 4
"""Of a part at least: sums must not take as long to add up as to gather."""

_VECTORS = IMAGE_LANES // LANES


class ParametricRectifier:
    """See `vectorized_ops.reference.parametric_rectifier.ParametricRectifier`."""

    def __init__(self) -> None:
        self._sums = aligned_zeros((0,))

    def forward(self, values: AnyArray, slopes: AnyArray, out: AnyArray) -> None:
        """Write the outputs; `out` may be `values`."""
        source, target = pixels(values), pixels(out)
        number, channels = out.shape[0], out.shape[-1]
        _forward(
            *source, *target, slopes, out.size // (number * channels), channels, number,
            streamed(target[0], out.nbytes, source[0]), numba.get_num_threads(),
        )  # fmt: skip

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        slopes: AnyArray,
        slopes_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of the slopes and of the values."""
        source, above, target = pixels(values), pixels(gradient), pixels(out)
        cut = target if mask is None else pixels(mask)
        number, channels = out.shape[0], out.shape[-1]
        count = out.size // (number * channels)
        parts = max(min(count // _PIXELS, MOST_PARTS), 1)
        size = parts * channels * LANES
        if len(self._sums) != size:
            self._sums = aligned_zeros((size,))
        past = not add and streamed(target[0], out.nbytes, source[0], above[0])
        _backward(
            *source, *above, *target, *cut, slopes, self._sums, count, channels, number, parts, add,
            mask is not None, past, numba.get_num_threads(),
        )  # fmt: skip
        _write_sums(self._sums, channels, slopes_out)


@kernel
def _slope(slopes: Any, channel: int) -> Any:
    return slopes[channel] if len(slopes) > 1 else slopes[0]


@parallel_kernel
def _forward(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    slopes: Any,
    pixels: int,
    channels: int,
    number: int,
    past: bool,
    threads: int,
) -> None:
    rows = pixels * channels
    for thread in numba.prange(threads):
        for row in range(part(rows, thread, threads), part(rows, thread + 1, threads)):
            pixel, channel = row // channels, row % channels
            parametric_tile(
                out, pixel * out_distance + channel * number, values,
                pixel * distance + channel * number, number // IMAGE_LANES * _VECTORS,
                _slope(slopes, channel), past,
            )  # fmt: skip
        finish_stores()


@parallel_kernel
def _backward(
    values: Any,
    distance: int,
    gradient: Any,
    gradient_distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    slopes: Any,
    sums: Any,
    pixels: int,
    channels: int,
    number: int,
    parts: int,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    vectors = number // IMAGE_LANES * _VECTORS
    for thread in numba.prange(threads):
        for piece in range(part(parts, thread, threads), part(parts, thread + 1, threads)):
            own = piece * channels * LANES
            sums[own : own + channels * LANES] = np.float32(0.0)
            for pixel in range(part(pixels, piece, parts), part(pixels, piece + 1, parts)):
                for channel in range(channels):
                    place = channel * number
                    parametric_gradient_tile(
                        out, pixel * out_distance + place, mask, pixel * mask_distance + place,
                        values, pixel * distance + place, gradient,
                        pixel * gradient_distance + place, vectors, _slope(slopes, channel), sums,
                        own + channel * LANES, add, masked, past,
                    )  # fmt: skip
        finish_stores()


@kernel
def _write_sums(sums: Any, channels: int, out: Any) -> None:
    """Write the sum of each channel over parts and lanes, or that of all channels."""
    whole = 0.0
    for channel in range(channels):
        total = 0.0
        for first in range(channel * LANES, len(sums), channels * LANES):
            for lane in range(LANES):
                total += sums[first + lane]
        whole += total
        if len(out) > 1:
            out[channel] = np.float32(total)
    if len(out) == 1:
        out[0] = np.float32(whole)
