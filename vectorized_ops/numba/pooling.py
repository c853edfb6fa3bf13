"""Pooling, forward and backward: each target pixel gathers its sources and is written once."""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray, aligned_zeros, pixels
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.argmax_places import NOWHERE
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.pooling import tiles as tiles
from vectorized_ops.numba.kernels.pooling.blocked_kernels import (
    TABLE,
    maxima_kernel,
    winners_kernel,
)
from vectorized_ops.numba.kernels.pooling.blocks import (
    pixel_blocks,
    pixels_fit,
    strip_of,
    window_blocks,
    windows_fit,
)
from vectorized_ops.numba.kernels.pooling.windows import Links, window_sizes, windows
from vectorized_ops.reference.pooling import check_window
from vectorized_ops.shapes import AdaptivePoolingShape, PoolingShape

_SOURCE_ROWS = 2048
"""Rows of lanes of all sources of a mean that are read before the next one's, 128 KiB: what two
windows share is in the second-level cache then."""

_MOST_SOURCES = 128
"""Sources of a mean that are read one strip after another. Of more, `_NEIGHBOURS` are summed at a
time, over all channels: so many streams are fetched ahead."""

_NEIGHBOURS = 8


class MaxPooling:
    """See `vectorized_ops.reference.pooling.MaxPooling`; images run fastest in memory.

    Small windows on maps of some size are made in blocks, in each direction if they can.
    """

    def __init__(self, shape: PoolingShape) -> None:
        check_window(shape.kernel)
        one_by_one = functools.cache(_OneByOne)  # if it is both, its tables are made once
        self._largest = _MaximaInBlocks(shape) if windows_fit(shape) else one_by_one(shape)
        self._winners = _WinnersInBlocks(shape) if pixels_fit(shape) else one_by_one(shape)

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        """Write the largest value of each window and its place in the window."""
        self._largest.forward(images, out, which)

    def backward(
        self,
        gradient: AnyArray,
        which: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images: the sum over the windows in which a pixel won."""
        self._winners.backward(gradient, which, out, add, mask)


class _MaximaInBlocks:
    """Maximum pooling whose windows share what they read with their neighbours."""

    def __init__(self, shape: PoolingShape) -> None:
        threads, (lines, columns), stride = numba.get_num_threads(), shape.kernel, shape.stride[0]
        self._extents = shape.height, shape.width, shape.padding[0], shape.lines, shape.pixels
        self._across = window_blocks(shape)
        self._kernel = maxima_kernel(lines, columns, stride)
        waiting = (lines - stride) * shape.pixels
        self._strip = strip_of(waiting)
        size = max(1, waiting) * self._strip * IMAGE_LANES
        self._scratch = (
            aligned_zeros((threads, size)),
            aligned_zeros((threads, size), np.uint8),
            np.zeros((threads, TABLE), np.int64),
        )

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        target = pixels(out)
        past = streamed(target[0], out.nbytes)
        self._kernel(
            *pixels(images), *target, *pixels(which), *self._extents, _block(out), self._strip,
            self._across, past, *self._scratch,
        )  # fmt: skip


class _WinnersInBlocks:
    """The gradient of maximum pooling with stride 1, whose windows are read once."""

    def __init__(self, shape: PoolingShape) -> None:
        threads, (lines, columns) = numba.get_num_threads(), shape.kernel
        self._extents = shape.height, shape.width, shape.padding[0], shape.lines, shape.pixels
        self._across, self._kernel = pixel_blocks(shape), winners_kernel(lines, columns)
        waiting = (lines - 1) * shape.width
        self._strip = strip_of(waiting)
        size = self._strip * IMAGE_LANES
        sums = aligned_zeros((threads, (waiting + 1) * size))
        self._scratch = sums, np.zeros((threads, TABLE), np.int64)
        self._nowhere = np.full(size, NOWHERE, np.uint8)

    def backward(
        self, gradient: AnyArray, which: AnyArray, out: AnyArray, add: bool, mask: AnyArray | None
    ) -> None:
        target = pixels(out)
        cut = target if mask is None else pixels(mask)
        past = not add and streamed(target[0], out.nbytes)
        self._kernel(
            *pixels(gradient), *pixels(which), *target, *cut, self._nowhere, *self._extents,
            _block(out), self._strip, self._across, add, mask is not None, past, *self._scratch,
        )  # fmt: skip


class _OneByOne:
    """Maximum pooling for windows of any size."""

    def __init__(self, shape: PoolingShape) -> None:
        self._forward, self._backward = windows(shape)
        self._threads = numba.get_num_threads()

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        links, past = self._forward, _streamed(out, which)
        _largest(
            *pixels(images), *pixels(out), *pixels(which), _block(out), links.starts, links.sources,
            links.places, links.fresh, past, self._threads,
        )  # fmt: skip

    def backward(
        self,
        gradient: AnyArray,
        which: AnyArray,
        out: AnyArray,
        add: bool,
        mask: AnyArray | None,
    ) -> None:
        links, target = self._backward, pixels(out)
        cut = target if mask is None else pixels(mask)
        past = not add and streamed(target[0], out.nbytes)
        _winners(
            *pixels(gradient), *pixels(which), *target, *cut, _block(out), links.starts,
            links.sources, links.places, links.fresh, add, mask is not None, past, self._threads,
        )  # fmt: skip


class AveragePooling:
    """See `vectorized_ops.reference.pooling.AveragePooling`; images run fastest in memory."""

    def __init__(self, shape: PoolingShape | AdaptivePoolingShape) -> None:
        self._forward, self._backward = windows(shape)
        shares = (1 / window_sizes(shape)).astype(np.float32)
        self._shares = np.repeat(shares, np.diff(self._forward.starts[:, 0]))
        self._window_shares = shares[self._backward.sources]

    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means of the windows."""
        _deliver_means(images, out, self._forward, self._shares)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient of the images: shares of all windows that hold a pixel."""
        _deliver_means(gradient, out, self._backward, self._window_shares, add, mask)


class GlobalAveragePooling:
    """See `vectorized_ops.reference.pooling.GlobalAveragePooling`; images run fastest in memory."""

    def __init__(self) -> None:
        self._links: dict[tuple[int, int], tuple[Links, Links, AnyArray]] = {}

    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means of the maps."""
        links, _, shares = self._tables(images)
        _deliver_means(images, out, links, shares)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient of the images from that of the means."""
        _, links, shares = self._tables(out)
        _deliver_means(gradient, out, links, shares, add, mask)

    def _tables(self, images: AnyArray) -> tuple[Links, Links, AnyArray]:
        side = height, width = images.shape[1], images.shape[2]
        if side not in self._links:
            shares = np.full(height * width, 1 / (height * width), np.float32)
            self._links[side] = *windows(PoolingShape(height, width, side, (1, 1))), shares
        return self._links[side]


def _block(array: AnyArray) -> int:
    """Return the elements of one pixel."""
    block: int = array.shape[0] * array.shape[-1]
    return block


def _streamed(out: AnyArray, which: AnyArray) -> bool:
    """Tell whether to store maxima and their places past the caches."""
    places: int = pixels(which)[0].__array_interface__["data"][0]
    return places % LANES == 0 and streamed(pixels(out)[0], out.nbytes)


def _deliver_means(
    values: AnyArray,
    out: AnyArray,
    links: Links,
    factors: AnyArray,
    add: bool = False,
    mask: AnyArray | None = None,
) -> None:
    target = pixels(out)
    cut = target if mask is None else pixels(mask)
    past = not add and streamed(target[0], out.nbytes)
    _means(
        *pixels(values), *target, *cut, _block(out), links.starts, links.sources, factors,
        links.fresh, add, mask is not None, past, numba.get_num_threads(),
    )  # fmt: skip


@kernel
def _share(starts: Any, size: int, thread: int, threads: int) -> tuple[int, int]:
    """Return the share of a thread in the targets, `size` rows of lanes each."""
    rows = (len(starts) - 1) * size
    return part(rows, thread, threads), part(rows, thread + 1, threads)


@kernel
def _piece(first: int, last: int, size: int) -> tuple[int, int, int]:
    """Return what the next piece is of a share: its target, and where it begins and its elements.

    A piece ends with its target, or with the share.
    """
    target, row = first // size, first % size
    return target, row * IMAGE_LANES, min(size - row, last - first) * IMAGE_LANES


@parallel_kernel
def _largest(
    images: Any,
    distance: int,
    out: Any,
    out_distance: int,
    which: Any,
    which_distance: int,
    block: int,
    starts: Any,
    sources: Any,
    places: Any,
    fresh: Any,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = _share(starts, size, thread, threads)
        while first < last:
            pixel, begin, count = _piece(first, last, size)
            tiles.maximum_tile(
                out, which, pixel * out_distance + begin, pixel * which_distance + begin, images,
                begin, distance, places, count // LANES, past, sources, starts[pixel, 0],
                starts[pixel + 1, 0], fresh, starts[pixel, 1], starts[pixel + 1, 1],
            )  # fmt: skip
            first += count // IMAGE_LANES
        finish_stores()


@parallel_kernel
def _winners(
    gradient: Any,
    gradient_distance: int,
    which: Any,
    which_distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    block: int,
    starts: Any,
    sources: Any,
    places: Any,
    fresh: Any,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = _share(starts, size, thread, threads)
        while first < last:
            pixel, begin, count = _piece(first, last, size)
            tiles.winners_tile(
                out, pixel * out_distance + begin, mask, pixel * mask_distance + begin, add, masked,
                past, gradient, begin, gradient_distance, which, begin, which_distance, places,
                count // LANES, sources, starts[pixel, 0], starts[pixel + 1, 0], fresh,
                starts[pixel, 1], starts[pixel + 1, 1],
            )  # fmt: skip
            first += count // IMAGE_LANES
        finish_stores()


@parallel_kernel
def _means(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    block: int,
    starts: Any,
    sources: Any,
    factors: Any,
    fresh: Any,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    size, targets = block // IMAGE_LANES, len(starts) - 1
    sources_each = len(sources) // max(1, targets)
    is_long = sources_each > _MOST_SOURCES and out.itemsize == 4  # sums are not rounded on the way
    some = _NEIGHBOURS if is_long else max(1, len(sources))
    strip = size if is_long else max(1, _SOURCE_ROWS // max(1, sources_each))
    for thread in numba.prange(threads):
        first, last = _share(starts, size, thread, threads)
        for begin in range(0, size, strip):
            for pixel in range(first // size, -(-last // size)):
                start = max(begin, first - pixel * size)
                rows = min(begin + strip, size, last - pixel * size) - start
                if rows <= 0:
                    continue
                place, vectors = start * IMAGE_LANES, rows * IMAGE_LANES // LANES
                low, high = starts[pixel, 0], starts[pixel + 1, 0]
                for source in range(low, max(high, low + 1), some):  # a mean of none is written
                    tiles.mean_tile(
                        out, pixel * out_distance + place, mask, pixel * mask_distance + place,
                        add or source > low, masked, past and not is_long, values, place, distance,
                        factors, vectors, sources, source, min(source + some, high), fresh,
                        starts[pixel, 1], starts[pixel if is_long else pixel + 1, 1],
                    )  # fmt: skip
        finish_stores()
