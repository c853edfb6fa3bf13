"""Dropout without a stored mask: the backward pass computes the decisions again."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, pixels
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.dropout_tiles import kept_tile
from vectorized_ops.reference.dropout import KEY_OFFSET, drop_below, hashed_number, key_halves

_hashed = kernel(hashed_number)


class Dropout:
    """See `vectorized_ops.reference.dropout.Dropout`; images run fastest in memory."""

    def __init__(self, rate: float, per_image: bool = False) -> None:
        self._per_image = per_image
        self._drop_below, self._factor = int(drop_below(rate)), np.float32(1 / (1 - rate))
        self._threads = numba.get_num_threads()

    def forward(self, values: AnyArray, out: AnyArray, key: int, first_image: int = 0) -> None:
        """Write the values that are kept, and zeros; `out` may be `values`."""
        self._deliver(values, out, key, False, None, first_image)

    def backward(
        self,
        gradient: AnyArray,
        out: AnyArray,
        key: int,
        add: bool = False,
        mask: AnyArray | None = None,
        first_image: int = 0,
    ) -> None:
        """Write the gradient of the values that were kept under this key, and zeros."""
        self._deliver(gradient, out, key, add, mask, first_image)

    def _deliver(
        self,
        values: AnyArray,
        out: AnyArray,
        key: int,
        add: bool,
        mask: AnyArray | None,
        first_image: int,
    ) -> None:
        source, target = pixels(values), pixels(out)
        cut = target if mask is None else pixels(mask)
        past = not add and streamed(target[0], out.nbytes, source[0])
        channels, size = out.shape[-1], out.size // len(out)
        step, numbers = (0, 1) if self._per_image else (1, size)
        keep(
            *source, *target, *cut, size // channels, channels, len(out),
            first_image * numbers, step, numbers,
            *key_halves(key), self._drop_below, self._factor, add, mask is not None, past,
            self._threads,
        )  # fmt: skip


@parallel_kernel
def keep(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    pixels: int,
    channels: int,
    images: int,
    first_number: int,
    step: int,
    numbers: int,
    key_low: int,
    key_high: int,
    drop_below: int,
    factor: Any,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    """Deliver the values that are kept: `pixels` of `channels` rows, each of so many images.

    Rows are numbered `step` apart from `first_number` on, the images of a row `numbers` apart.
    """
    total = pixels * channels
    key = _hashed(key_low ^ _hashed(key_high ^ KEY_OFFSET))
    for thread in numba.prange(threads):
        first, last = part(total, thread, threads), part(total, thread + 1, threads)
        while first < last:
            pixel, begin = first // channels, first % channels
            count, place = min(channels - begin, last - first), begin * images
            kept_tile(
                out, pixel * out_distance + place, mask, pixel * mask_distance + place, values,
                pixel * distance + place, count, images // LANES, first_number + first * step,
                step, numbers, key, drop_below, factor, add, masked, past,
            )  # fmt: skip
            first += count
        finish_stores()
