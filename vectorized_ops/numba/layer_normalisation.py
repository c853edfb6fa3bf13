"""Layer normalisation over channels: one read and one write forward, two reads and one write back.

What is read again lies in a cache: a column of 16 images and all channels of a pixel.
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
from vectorized_ops.numba.kernels.normalisation.layer_tiles import (
    SUMS,
    layer_gradients_tile,
    layer_normalised_tile,
)
from vectorized_ops.reference.scaling import check_per_channel

_SUMMED = 64
"""Columns added up in float32 before the sums go into doubles."""


class LayerNormalisation:
    """See `vectorized_ops.reference.layer_normalisation.LayerNormalisation`; images run fastest.

    Each thread sums columns of its own: gradients are the same to the last bit for the same number
    of threads, and nearly the same for another.
    """

    def __init__(self, epsilon: float) -> None:
        self._epsilon = np.float32(epsilon)
        self._sums, self._totals = aligned_zeros((0, 0)), np.zeros((0, 0, 2))

    def forward(self, values: AnyArray, scale: AnyArray, shift: AnyArray, out: AnyArray) -> None:
        """Write (values - mean) / sqrt(variance + epsilon) * scale + shift; may be in place."""
        check_per_channel(values, scale, shift)
        source, target = pixels(values), pixels(out)
        past = streamed(target[0], out.nbytes, source[0])
        _forward(
            *source, *target, out[0, ..., 0].size, len(out), scale, shift, self._epsilon, past,
            numba.get_num_threads(),
        )  # fmt: skip

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        scale: AnyArray,
        scale_out: AnyArray,
        shift_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of scale and shift; write, or add to `out`, that of the values."""
        check_per_channel(values, scale, scale_out, shift_out)
        source, above, target = pixels(values), pixels(gradient), pixels(out)
        cut = target if mask is None else pixels(mask)
        past = not add and streamed(target[0], out.nbytes, source[0], above[0])
        self._make_sums(len(scale))
        _backward(
            *source, *above, *target, *cut, out[0, ..., 0].size, len(out), scale, self._epsilon,
            self._sums, self._totals, add, mask is not None, past,
        )  # fmt: skip
        _over_threads(self._totals, shift_out, scale_out)

    def _make_sums(self, channels: int) -> None:
        """Make room for what each thread sums up."""
        threads = numba.get_num_threads()
        if self._totals.shape[:2] != (threads, channels):
            self._sums = aligned_zeros((threads, channels * SUMS))
            self._totals = np.zeros((threads, channels, 2))


@parallel_kernel
def _forward(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    pixels: int,
    row: int,
    scale: Any,
    shift: Any,
    epsilon: Any,
    past: bool,
    threads: int,
) -> None:
    columns, channels = row // IMAGE_LANES, len(scale)
    count = np.float32(channels)
    for thread in numba.prange(threads):
        first = part(pixels * columns, thread, threads)
        last = part(pixels * columns, thread + 1, threads)
        while first < last:
            pixel, begin = first // columns, first % columns
            together, place = min(columns - begin, last - first), begin * IMAGE_LANES
            layer_normalised_tile(
                out, pixel * out_distance + place, values, pixel * distance + place, distance, row,
                channels, together * IMAGE_LANES // LANES, count, scale, shift, epsilon, past,
            )  # fmt: skip
            first += together
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
    pixels: int,
    row: int,
    scale: Any,
    epsilon: Any,
    sums: Any,
    totals: Any,
    add: bool,
    masked: bool,
    past: bool,
) -> None:
    """Sums (T, C*SUMS) and totals (T, C, 2), of g and of g v, are each thread's own."""
    threads, columns, channels = len(sums), row // IMAGE_LANES, len(scale)
    count = np.float32(channels)
    for thread in numba.prange(threads):
        own, summed = sums[thread], 0
        own[:] = np.float32(0.0)
        totals[thread] = 0.0
        first = part(pixels * columns, thread, threads)
        last = part(pixels * columns, thread + 1, threads)
        while first < last:
            pixel, begin = first // columns, first % columns
            together, place = min(columns - begin, last - first), begin * IMAGE_LANES
            layer_gradients_tile(
                out, pixel * out_distance + place, mask, pixel * mask_distance + place, values,
                pixel * distance + place, distance, gradient, pixel * gradient_distance + place,
                gradient_distance, row, channels, together * IMAGE_LANES // LANES, count, scale,
                own, epsilon, add, masked, past,
            )  # fmt: skip
            first += together
            summed += together
            if summed >= _SUMMED:
                _flush(own, totals[thread])
                summed = 0
        _flush(own, totals[thread])
        finish_stores()


@kernel
def _flush(sums: Any, totals: Any) -> None:
    """Add the lanes of all sums to the totals; begin the sums anew."""
    for c in range(len(totals)):
        for which in range(2):
            total, begin = 0.0, c * SUMS + which * LANES
            for i in range(begin, begin + LANES):
                total += np.float64(sums[i])
                sums[i] = np.float32(0.0)
            totals[c, which] += total


@kernel
def _over_threads(totals: Any, shift_out: Any, scale_out: Any) -> None:
    for c in range(len(shift_out)):
        shift, scale = 0.0, 0.0
        for thread in range(len(totals)):
            shift += totals[thread, c, 0]
            scale += totals[thread, c, 1]
        shift_out[c], scale_out[c] = shift, scale
