"""Forward and backward-data convolution: one loop over pixels and blocks of filters.

Both are correlations. They differ in their tables (`taps`) and in how the weights are packed. In
backward-data, "filters" are the channels of the input and "channels" the filters of the forward
pass. Memory is (H, W, C, N); all arrays are flat.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import NO_TILE, TileFunction, call_tile
from vectorized_ops.numba.emit.bfloat16 import as_pair
from vectorized_ops.numba.emit.lanes import AVX512, LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.direct_tiles import CORRELATION
from vectorized_ops.numba.kernels.convolution.row_tiles import copy_tile, transpose_rows_tile
from vectorized_ops.numba.moments import SUMMED_VALUES, SUMS, join_sums

TILE_COLUMNS = 2
"""Vectors of images in a tile: a weight that was loaded is used twice."""

TALLEST_TILE = 14 if AVX512 else 6
"""With two columns 28 of 32 (or 12 of 16) registers hold results."""

PANEL_BYTES = 256 * 1024
"""What the inputs of a block of pixels may take of the second-level cache."""


def tile_rows(filters: int) -> int:
    """Return the height of tile that covers `filters` with the least work.

    The last block overlaps the one before it. A tile costs about one row more than it has: the
    loads of its images and the loop.
    """
    heights = range(min(filters, TALLEST_TILE), 0, -1)
    return min(heights, key=lambda rows: -(-filters // rows) * (rows + 1.0))


def pixel_block(lines: int, channels: int, images: int, size: int = 4) -> int:
    """Return over how many pixels a block of weights is used while their inputs stay in cache.

    A value of these has `size` bytes.
    """
    return int(np.clip(PANEL_BYTES // (size * lines * channels * images), 1, 16))


def split_threads(threads: int, pixels: int, blocks: int) -> tuple[int, int]:
    """Divide threads among pixels and blocks of filters so that the busiest has the least."""
    divisors = [count for count in range(1, threads + 1) if threads % count == 0]
    by_pixels = min(
        reversed(divisors),
        key=lambda count: -(-pixels // count) * -(-blocks // (threads // count)),
    )
    return by_pixels, threads // by_pixels


@parallel_kernel
def pack_weights(
    weights: Any,
    out: Any,
    rows: int,
    groups: int,
    filters: int,
    channels: int,
    lines: int,
    columns: int,
    backward: bool,
    pairs: bool = False,
) -> None:
    """Write weights (K, C/groups, R, S), flat, as blocks (groups, blocks, R, S, channels, rows).

    `filters` and `channels` are those of one group: for backward-data the channels and the filters
    of the forward pass, and the columns of the kernel run backwards (see `taps`). With `pairs`, two
    neighbouring rows of a block become one of pairs of bfloat16; the second half of the block's
    memory is not used then.
    """
    taps = lines * columns
    blocks = (filters + rows - 1) // rows
    size = taps * channels * rows
    filter_step = taps if backward else channels * taps
    channel_step = filters * taps if backward else taps
    for item in numba.prange(groups * blocks):
        group, block = item // blocks, item % blocks
        source = group * filters * channels * taps + min(block * rows, filters - rows) * filter_step
        packed = 0
        if taps == 1:
            packed = _pack_single_taps(
                weights, source, filter_step, channel_step, out, item * size, rows, channels
            )
        for r in range(lines):
            for s in range(columns):
                tap = r * columns + (columns - 1 - s if backward else s)
                target = item * size + (r * columns + s) * channels * rows
                for c in range(packed, channels):
                    begin = source + c * channel_step + tap
                    for i in range(rows):
                        out[target + c * rows + i] = weights[begin + i * filter_step]
        if pairs:
            pair_rows(out, item * size, rows, taps * channels // 2)


@kernel
def pair_rows(out: Any, begin: int, rows: int, pairs: int) -> None:
    """Write neighbouring rows of a block of weights as one of pairs of bfloat16, in their place."""
    for pair in range(pairs):
        target, source = begin + pair * rows, begin + 2 * pair * rows
        for i in range(rows):
            out[target + i] = as_pair(out[source + i], out[source + rows + i])


@kernel
def _pack_single_taps(
    weights: Any,
    source: int,
    filter_step: int,
    channel_step: int,
    out: Any,
    target: int,
    rows: int,
    channels: int,
) -> int:
    """Write as many channels of a block of 1x1 weights as whole vectors fit in; return how many."""
    c, end = 0, target + channels * rows
    if channel_step == 1:
        while c + LANES <= channels and target + (c + LANES - 1) * rows + LANES <= end:
            transpose_rows_tile(
                out, target + c * rows, rows, LANES, weights, source + c, filter_step, rows
            )
            c += LANES
    else:
        while target + c * rows + LANES <= end and source + c * channel_step + LANES <= len(
            weights
        ):
            copy_tile(out, target + c * rows, weights, source + c * channel_step)
            c += 1
    return c


@kernel
def block_size(rows: int, channels: int) -> int:
    """Return the floats of a block of weights of which vectors are written beyond its end."""
    return rows * channels + LANES


@kernel
def weights_step(blocks: int, rows: int, channels: int) -> int:
    """Return the floats from one of many packings of weights to the next, in such blocks.

    An odd number of vectors, so that the same vector of all is in different sets of a cache.
    """
    vectors = (blocks * block_size(rows, channels) + LANES - 1) // LANES
    return (vectors | 1) * LANES


class Tiles(NamedTuple):
    """The functions of tiles of so many rows, `TILE_COLUMNS` vectors wide, and one vector."""

    rows: int
    wide: int
    narrow: int


def tiles_of(
    function: TileFunction,
    rows: int,
    columns: Collection[int],
    *more: int,
    bfloat16: tuple[str, ...] = (),
) -> Tiles:
    """Return the tiles of so many rows, as far as their numbers of columns are wanted.

    `more` are the constants that `function` has beside rows and columns; arrays named in `bfloat16`
    are of that type.
    """
    wide, narrow = (
        function.address(rows, count, *more, bfloat16=bfloat16) if count in columns else NO_TILE
        for count in (TILE_COLUMNS, 1)
    )
    return Tiles(rows, wide, narrow)


def columns_of(images: int) -> tuple[int, ...]:
    """Return of how many vectors the tiles are that cover so many images."""
    vectors = images // LANES
    return (TILE_COLUMNS,) * (vectors >= TILE_COLUMNS) + (1,) * (vectors % TILE_COLUMNS)


@functools.cache
def correlation_kernel(
    rows: int, images: int, pairs: bool = False, bfloat16: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Return the kernel with tiles of so many rows, for so many images.

    `bfloat16` are the names of its arrays of that type. With `pairs` it multiplies in bfloat16.
    """
    columns = columns_of(images)
    return partial(_correlate, tiles_of(CORRELATION, rows, columns, int(pairs), bfloat16=bfloat16))


@parallel_kernel
def _correlate(
    tiles: Any,
    out: Any,
    out_distance: int,
    images: int,
    filters: int,
    groups: int,
    inputs: Any,
    group_step: int,
    packed: Any,
    steps: int,
    bias: Any,
    segments: Any,
    first: Any,
    count: Any,
    classes: Any,
    bases: Any,
    mask: Any,
    mask_distance: int,
    mode: int,
    at_once: int,
    by_pixels: int,
    by_blocks: int,
    with_moments: bool,
    sums: Any,
    pivots: Any,
    totals: Any,
    real: Any,
    real_images: int,
) -> None:
    """Write results; with moments also those of them, each thread its own (see `moments`)."""
    rows, pixels = tiles.rows, len(classes)
    blocks = (filters + rows - 1) // rows
    for thread in numba.prange(by_pixels * by_blocks):
        mine, share = thread // by_blocks, thread % by_blocks
        last_pixel = part(pixels, mine + 1, by_pixels)
        first_block = part(groups * blocks, share, by_blocks)
        last_block = part(groups * blocks, share + 1, by_blocks)
        first_pixel, summed = part(pixels, mine, by_pixels), 0
        # The blocks of filters of a pixel take turns in fetching the pixel that comes for it.
        turns = max(1, last_block - first_block)
        coming_step = (images + turns - 1) // turns
        own_sums, own_pivots = sums[thread], pivots[thread]
        if with_moments:
            own_sums[:] = 0.0
            totals[thread] = 0.0
        for begin in range(first_pixel, last_pixel, at_once):
            for item in range(first_block, last_block):
                group = item // blocks
                done = max(0, item % blocks * rows - (filters - rows))
                k = group * filters + item % blocks * rows - done
                for pixel in range(begin, min(begin + at_once, last_pixel)):
                    kind = classes[pixel]
                    source = bases[pixel] + group * group_step
                    coming = bases[min(pixel + at_once, pixels - 1)] + group * group_step
                    coming += (item - first_block) * (group_step // images) * coming_step
                    target = pixel * out_distance + k * images
                    masked = pixel * mask_distance + k * images
                    lane, fresh = 0, pixel == first_pixel
                    while lane < images:
                        wide = lane + TILE_COLUMNS * LANES <= images
                        call_tile(
                            tiles.wide if wide else tiles.narrow, out, target + lane, images,
                            bias, k, packed, item * steps * rows, inputs, source + lane, segments,
                            first[kind], count[kind], mask, masked + lane, mode, done, inputs,
                            coming, coming_step, with_moments, own_sums, k * SUMS, own_pivots, k,
                            fresh and lane == 0, real, lane,
                        )  # fmt: skip
                        lane += TILE_COLUMNS * LANES
            summed += min(at_once, last_pixel - begin)
            enough = begin == first_pixel or summed * images >= SUMMED_VALUES
            if with_moments and (enough or begin + at_once >= last_pixel):
                for item in range(first_block, last_block):
                    k = item // blocks * filters + item % blocks * rows
                    join_sums(
                        own_sums, own_pivots, totals[thread], k,
                        min(k + rows, (item // blocks + 1) * filters), summed, real_images,
                    )  # fmt: skip
                summed = 0
        finish_stores()
