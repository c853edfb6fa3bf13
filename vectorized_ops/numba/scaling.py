"""Channels times trained factors: one read and one write in each direction."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, pixels
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.affine_tiles import affine_tile
from vectorized_ops.numba.normalisation import BatchNormalisation
from vectorized_ops.reference.scaling import check_per_channel


class ChannelScale:
    """See `vectorized_ops.reference.scaling.ChannelScale`; images run fastest in memory."""

    def __init__(self) -> None:
        self._sums: tuple[tuple[int, ...], BatchNormalisation] | None = None

    def forward(self, values: AnyArray, scale: AnyArray, out: AnyArray) -> None:
        """Write values * scale."""
        self.backward(values, scale, out)

    def backward_scale(self, values: AnyArray, gradient: AnyArray, out: AnyArray) -> None:
        """Write the sums over images and pixels of gradient * values: two reads."""
        check_per_channel(values, out)
        if self._sums is None or self._sums[0] != values.shape:
            count = values[0, ..., 0].size
            sums = BatchNormalisation(len(values), count, 1, values.shape[-1], 0.0)
            self._sums = values.shape, sums
        self._sums[1].product_sums(values, gradient, out)

    def backward(
        self,
        gradient: AnyArray,
        scale: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write, or add to `out`, gradient * scale; `out` may be `gradient` without `add`."""
        check_per_channel(gradient, scale)
        source, target = pixels(gradient), pixels(out)
        cut = target if mask is None else pixels(mask)
        past = not add and streamed(target[0], out.nbytes, source[0])
        _scaled(
            *source, *target, *cut, out[0, ..., 0].size, len(out), scale, add, mask is not None,
            past, numba.get_num_threads(),
        )  # fmt: skip


@parallel_kernel
def _scaled(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    pixels: int,
    row: int,
    scale: Any,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    channels = len(scale)
    for thread in numba.prange(threads):
        first = part(pixels * channels, thread, threads)
        for each in range(first, part(pixels * channels, thread + 1, threads)):
            pixel, channel = each // channels, each % channels
            place = channel * row
            affine_tile(
                out, pixel * out_distance + place, mask, pixel * mask_distance + place, values,
                pixel * distance + place, row // LANES, scale[channel], np.float32(0.0), add,
                masked, past,
            )  # fmt: skip
        finish_stores()
