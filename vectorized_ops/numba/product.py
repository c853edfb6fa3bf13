"""Products of channels with factors of their own: one read and one write forward."""

from __future__ import annotations

from typing import Any, Final

import numba

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import IMAGE_LANES, AnyArray, pixels
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.product_tiles import (
    channel_product_tile,
    pixel_products_tile,
)

NEIGHBOURS: Final = 8
"""Pixels that are summed side by side: so many streams are fetched ahead, line after line."""


class ChannelProduct:
    """See `vectorized_ops.reference.product.ChannelProduct`; images run fastest in memory."""

    def forward(self, maps: AnyArray, factors: AnyArray, out: AnyArray) -> None:
        """Write maps * factors; `out` may be `maps`."""
        self.backward_maps(maps, factors, out)

    def backward_maps(
        self,
        gradient: AnyArray,
        factors: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write, or add to `out`, gradient * factors; `out` may be `gradient` without `add`."""
        _check(factors, gradient, out)
        source, target = pixels(gradient), pixels(out)
        cut = target if mask is None else pixels(mask)
        past = not add and streamed(target[0], out.nbytes, source[0])
        _products(
            *source, *target, *cut, pixels(factors)[0], out.shape[1] * out.shape[2], factors.size,
            add, mask is not None, past, numba.get_num_threads(),
        )  # fmt: skip

    def backward_factors(
        self,
        gradient: AnyArray,
        maps: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write, or add to `out`, the sums over pixels of gradient * maps."""
        _check(out, gradient, maps)
        cut = out if mask is None else mask
        _sums(
            *pixels(gradient), *pixels(maps), pixels(out)[0], pixels(cut)[0],
            maps.shape[1] * maps.shape[2], out.size, add, mask is not None,
            numba.get_num_threads(),
        )  # fmt: skip


def _check(factors: AnyArray, *maps: AnyArray) -> None:
    number, channels = factors.shape
    for each in maps:
        if each.ndim != 4 or (each.shape[0], each.shape[3]) != (number, channels):
            raise OperationError(
                f"maps {each.shape} and factors {factors.shape} were given to a product of "
                "channels: expected maps (N, H, W, C) and a factor for each image and channel "
                "(N, C); make all of them for one number of images"
            )


@parallel_kernel
def _products(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    factors: Any,
    pixels: int,
    block: int,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(pixels * size, thread, threads), part(pixels * size, thread + 1, threads)
        while first < last:
            pixel, begin = first // size, first % size
            count, place = min(size - begin, last - first), begin * IMAGE_LANES
            channel_product_tile(
                out, pixel * out_distance + place, mask, pixel * mask_distance + place, values,
                pixel * distance + place, factors, place, count * IMAGE_LANES // LANES, add,
                masked, past,
            )  # fmt: skip
            first += count
        finish_stores()


@parallel_kernel
def _sums(
    gradient: Any,
    gradient_distance: int,
    values: Any,
    distance: int,
    out: Any,
    mask: Any,
    pixels: int,
    block: int,
    add: bool,
    masked: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(size, thread, threads), part(size, thread + 1, threads)
        place = first * IMAGE_LANES
        for pixel in range(0, pixels, NEIGHBOURS):
            pixel_products_tile(
                out, place, mask, place, gradient, place + pixel * gradient_distance,
                gradient_distance, values, place + pixel * distance, distance,
                min(NEIGHBOURS, pixels - pixel), (last - first) * IMAGE_LANES // LANES,
                add or pixel > 0, masked, False,
            )  # fmt: skip
