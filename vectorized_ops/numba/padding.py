"""Padding of maps: one read and one write."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray, pixels
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.bfloat16 import store_element
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.affine_tiles import affine_tile
from vectorized_ops.reference.padding import Sides, check_sides


class Padding:
    """See `vectorized_ops.reference.padding.Padding`; images run fastest in memory."""

    def __init__(self, sides: Sides, value: float = 0.0) -> None:
        check_sides(sides)
        self._above, _, self._left, _ = sides
        self._value = np.float32(value)

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write the padded maps."""
        source, target = pixels(values), pixels(out)
        (height, width), (number, lines, columns, channels) = values.shape[1:3], out.shape
        _forward(
            *source, *target, height, width, lines, columns, self._above, self._left,
            number * channels, self._value, streamed(target[0], out.nbytes),
            numba.get_num_threads(),
        )  # fmt: skip

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write, or add to `out`, the part of the gradient that belongs to the maps."""
        source, target = pixels(gradient), pixels(out)
        cut = target if mask is None else pixels(mask)
        past = not add and streamed(target[0], out.nbytes)
        number, height, width, channels = out.shape
        _backward(
            *source, *target, *cut, height, width, gradient.shape[2], self._above, self._left,
            number * channels, add, mask is not None, past, numba.get_num_threads(),
        )  # fmt: skip


@parallel_kernel
def _forward(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    height: int,
    width: int,
    lines: int,
    pixels: int,
    above: int,
    left: int,
    block: int,
    value: Any,
    past: bool,
    threads: int,
) -> None:
    vectors = block // IMAGE_LANES * (IMAGE_LANES // LANES)
    one, zero = np.float32(1.0), np.float32(0.0)
    for thread in numba.prange(threads):
        end = part(lines * pixels, thread + 1, threads)
        for place in range(part(lines * pixels, thread, threads), end):
            y, x, target = place // pixels - above, place % pixels - left, place * out_distance
            if 0 <= y < height and 0 <= x < width:
                source = (y * width + x) * distance
                affine_tile(
                    out, target, out, target, values, source, vectors, one, zero, False, False,
                    past,
                )  # fmt: skip
            else:
                for i in range(block):
                    store_element(out, target + i, value)
        finish_stores()


@parallel_kernel
def _backward(
    gradient: Any,
    distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    height: int,
    width: int,
    pixels: int,
    above: int,
    left: int,
    block: int,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    vectors = block // IMAGE_LANES * (IMAGE_LANES // LANES)
    one, zero = np.float32(1.0), np.float32(0.0)
    for thread in numba.prange(threads):
        end = part(height * width, thread + 1, threads)
        for place in range(part(height * width, thread, threads), end):
            source = (place // width + above) * pixels + place % width + left
            affine_tile(
                out, place * out_distance, mask, place * mask_distance, gradient, source * distance,
                vectors, one, zero, add, masked, past,
            )  # fmt: skip
        finish_stores()
