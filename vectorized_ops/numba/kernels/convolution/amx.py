"""Convolution by AMX's tiles: each pixel's inputs become a panel of pairs, then products of it.

Forward and backward-data are correlations, see `direct`. A panel has the pairs of neighbouring
channels of a pixel's taps, in the order of the packed weights: for each vector of images a matrix
of up to `depth` rows. Where the pairs of a tap are no whole tiles, taps outside the image are zeros
in it, and so is what fills up tiles: an infinite weight gives NaN there. Backward-weights is that
of `weights_gradient`, with other tiles.
Memory is (H, W, C, N); all arrays are flat.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import NO_TILE, call_tile
from vectorized_ops.numba.emit.amx import TILE
from vectorized_ops.numba.emit.bfloat16 import as_pair
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.amx_tiles import (
    AMX_OUTER_PRODUCT,
    FINISH,
    PAIRS,
    PRODUCTS,
    TURN_HALF,
)
from vectorized_ops.numba.kernels.convolution.direct import tiles_of
from vectorized_ops.numba.kernels.convolution.taps import TapTables
from vectorized_ops.numba.kernels.convolution.weights_gradient import weights_gradient_by
from vectorized_ops.numba.moments import SUMMED_VALUES, SUMS, join_sums

BLOCK = 2 * TILE
"""Filters of a block: two tiles, beside two vectors of images."""


def depth_of(channels: int, taps: int) -> int:
    """Return the pairs of a panel, or of a filter's packed weights: whole tiles."""
    return ((channels + 1) // 2 * taps + TILE - 1) // TILE * TILE


def are_whole_tiles(channels: int) -> bool:
    """Tell whether the pairs of so many channels, of one tap, fill tiles."""
    return (channels + 1) // 2 % TILE == 0


@kernel
def _pack_rest(
    weights: Any, source: int, channels: int, channel_step: int, half: int, done: int, out: Any,
    target: int, place: int,
) -> None:  # fmt: skip
    """Write the pairs of a tap of a filter from `done` on; TILE of them lie in each tile."""
    for pair in range(done, half):
        first = weights[source + 2 * pair * channel_step]
        second = np.float32(0.0)
        if 2 * pair + 1 < channels:
            second = weights[source + (2 * pair + 1) * channel_step]
        at = place + pair
        out[target + at // TILE * TILE * TILE + at % TILE] = as_pair(first, second)


@kernel
def pack_block(
    packing: int, weights: Any, group: int, first: int, number: int, filters: int, channels: int,
    lines: int, columns: int, backward: bool, depth: int, out: Any, target: int,
) -> None:  # fmt: skip
    """Write `number` filters of a group from `first` on as tiles, the last one's rest being zeros.

    Weights are flat (K, C/groups, R, S), `filters` and `channels` those of `direct.pack_weights`.
    `packing` is a function of a tile, by which whole tiles are written.
    """
    taps, half = lines * columns, (channels + 1) // 2
    filter_step = taps if backward else channels * taps
    channel_step = filters * taps if backward else taps
    source = group * filters * channels * taps + first * filter_step
    for f in range(0, number, TILE):
        here, begin = min(TILE, number - f), target + f * depth
        whole = channels // (2 * TILE) if here == TILE or not backward else 0
        for tap in range(taps):
            r, s = tap // columns, tap % columns
            at = source + f * filter_step + r * columns + (columns - 1 - s if backward else s)
            done = 0
            if tap * half % TILE == 0 and whole > 0:
                call_tile(
                    packing, out, begin + tap * half * TILE, weights, at, filter_step,
                    channel_step, here, whole,
                )  # fmt: skip
                done = whole * TILE
            for i in range(here):
                _pack_rest(
                    weights, at + i * filter_step, channels, channel_step, half, done, out,
                    begin + i * TILE, tap * half,
                )  # fmt: skip
        for i in range(TILE):
            for place in range(half * taps if i < here else 0, depth):
                out[begin + i * TILE + place // TILE * TILE * TILE + place % TILE] = 0.0


@parallel_kernel
def pack_blocks(
    packing: int, weights: Any, groups: int, filters: int, channels: int, lines: int, columns: int,
    backward: bool, depth: int, out: Any,
) -> None:  # fmt: skip
    """Write all blocks of filters, BLOCK*depth floats apart; see `pack_block`."""
    blocks = (filters + BLOCK - 1) // BLOCK
    for item in numba.prange(groups * blocks):
        first = item % blocks * BLOCK
        pack_block(
            packing, weights, item // blocks, first, min(BLOCK, filters - first), filters, channels,
            lines, columns, backward, depth, out, item * BLOCK * depth,
        )  # fmt: skip


@kernel
def fill_panel(
    pairs: int, panel: Any, begin: int, depth: int, inputs: Any, base: int, images: int,
    channels: int, whole: bool, segments: Any, first: int, count: int,
) -> None:  # fmt: skip
    """Write the panel of a pixel, see `taps` for its segments; `pairs` is a function of a tile.

    Taps of `whole` tiles follow one another. Others lie where they do in packed weights, with zeros
    for those outside the image.
    """
    half, done, step = (channels + 1) // 2, 0, depth * LANES
    for number in range(first, first + count):
        start = done if whole else segments[3 * number + 1] // channels * half
        _clear(panel, begin, step, images, done, start)
        source = base + segments[3 * number]
        for tap in range(segments[3 * number + 2] // channels):
            call_tile(
                pairs, panel, begin + (start + tap * half) * LANES, step, inputs,
                source + tap * channels * images, images, channels,
            )  # fmt: skip
        done = start + segments[3 * number + 2] // channels * half
    if not whole:
        _clear(panel, begin, step, images, done, depth)


@kernel
def _clear(panel: Any, begin: int, step: int, images: int, first: int, last: int) -> None:
    for vector in range(images // LANES):
        place = begin + vector * step
        panel[place + first * LANES : place + last * LANES] = 0.0


class Runs(NamedTuple):
    """The steps of products, each a tile of pairs, of the panels of each class of pixels.

    `steps` holds for each run its first step in packed weights, and how many it has; `first` and
    `number` (classes,) say which runs are those of a class (int64 arrays).
    """

    steps: AnyArray
    first: AnyArray
    number: AnyArray


def runs_of(tables: TapTables, channels: int, depth: int) -> Runs:
    """Return what is multiplied of panels that `fill_panel` wrote of such tables."""
    half, classes = (channels + 1) // 2, len(tables.count)
    if not are_whole_tiles(channels):
        whole = np.array([0, depth // TILE])
        return Runs(whole, np.zeros(classes, np.int64), np.ones(classes, np.int64))
    taps = tables.segments.reshape(-1, 3)[:, 1:] // channels
    return Runs((taps * (half // TILE)).reshape(-1), tables.first, tables.count)


class AmxTiles(NamedTuple):
    """The functions of tiles: two or one of filters, beside two vectors of images or one."""

    square: int
    tall: int
    wide: int
    single: int
    pairs: int
    finish: int


@functools.cache
def panels_kernel(
    filters: int, images: int, native: bool, bfloat16: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Return the kernel for so many filters in a group, and images.

    `bfloat16` names its arrays of that type. Unless `native`, tiles are emulated.
    """
    heights = {(min(BLOCK, filters - k) + TILE - 1) // TILE for k in range(0, filters, BLOCK)}
    widths = {2} if images // LANES % 2 == 0 else {2, 1}
    square, tall, wide, single = (
        PRODUCTS.address(rows, columns, int(native))
        if rows in heights and columns in widths
        else NO_TILE
        for rows in (2, 1)
        for columns in (2, 1)
    )
    of_pairs = PAIRS.address(bfloat16=tuple(name for name in bfloat16 if name == "inputs"))
    stored = tuple(name for name in bfloat16 if name != "inputs")
    finish = FINISH.address(1 if 1 in widths else 2, bfloat16=stored)
    return partial(_correlate_panels, AmxTiles(square, tall, wide, single, of_pairs, finish))


@kernel
def _multiply(
    tiles: Any, rows: int, out: Any, target: int, weights: Any, first: int, panels: Any, begin: int,
    depth: int, run_steps: Any, first_run: int, number: int, vectors: int,
) -> None:  # fmt: skip
    """Write the products of `rows` tiles of filters and so many vectors of panels."""
    pairs, step = vectors // 2, depth * LANES
    if pairs > 0:
        call_tile(
            tiles.square if rows == 2 else tiles.wide, out, target, weights, first, depth * TILE,
            panels, begin, step, run_steps, 2 * first_run, number, pairs,
        )  # fmt: skip
    if vectors % 2 == 1:
        done = 2 * pairs
        call_tile(
            tiles.tall if rows == 2 else tiles.single, out, target + done * rows * TILE * LANES,
            weights, first, depth * TILE, panels, begin + done * step, step, run_steps,
            2 * first_run, number, 1,
        )  # fmt: skip


@kernel
def _multiply_pixels(
    tiles: Any, rows: int, own: Any, target: int, weights: Any, first: int, depth: int, images: int,
    classes: Any, begin: int, number: int, count: Any, run_steps: Any, first_run: Any,
    run_number: Any,
) -> None:  # fmt: skip
    """Write the products of pixels whose panels are the first in `own`; without taps there is none.

    Neighbouring pixels of one class are one call.
    """
    done, i = 0, 0
    while i < number:
        kind, last = classes[begin + i], i
        while last < number and classes[begin + last] == kind:
            last += 1
        if count[kind] > 0:
            _multiply(
                tiles, rows, own, target + done * rows * TILE * images, weights, first, own,
                done * depth * images, depth, run_steps, first_run[kind], run_number[kind],
                (last - i) * (images // LANES),
            )  # fmt: skip
            done += last - i
        i = last


@parallel_kernel
def _correlate_panels(
    tiles: Any,
    out: Any,
    out_distance: int,
    images: int,
    filters: int,
    groups: int,
    inputs: Any,
    channels: int,
    whole: bool,
    packing: int,
    weights: Any,
    kernel_size: tuple[int, int],
    backward: bool,
    depth: int,
    packed: Any,
    packs: bool,
    bias: Any,
    segments: Any,
    first: Any,
    count: Any,
    classes: Any,
    bases: Any,
    run_steps: Any,
    first_run: Any,
    run_number: Any,
    mask: Any,
    mask_distance: int,
    mode: int,
    scratch: Any,
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
    """Write results; with moments also those of them, each thread its own (see `moments`).

    `packed` are blocks of weights, unless it `packs` each where it is used, once if all pixels are
    computed `at_once`. Pixels that no tap reaches, as strides beyond the kernel have, take no
    products.
    """
    pixels, blocks = len(classes), (filters + BLOCK - 1) // BLOCK
    panel, block_size = depth * images, BLOCK * depth
    at_products = at_once * panel
    at_zeros = at_products + at_once * images * BLOCK
    at_weights = at_zeros + images * BLOCK
    for thread in numba.prange(by_pixels * by_blocks):
        mine, share = thread // by_blocks, thread % by_blocks
        first_pixel = part(pixels, mine, by_pixels)
        last_pixel = part(pixels, mine + 1, by_pixels)
        first_item = part(groups * blocks, share, by_blocks)
        last_item = part(groups * blocks, share + 1, by_blocks)
        first_filter = first_item // blocks * filters + first_item % blocks * BLOCK
        last_filter = last_item // blocks * filters + last_item % blocks * BLOCK
        own, own_sums, own_pivots, summed = scratch[thread], sums[thread], pivots[thread], 0
        if with_moments:
            own_sums[:] = 0.0
            totals[thread] = 0.0
        own[at_zeros:at_weights] = 0.0
        for begin in range(first_pixel, last_pixel, at_once):
            number, filled, taken = min(at_once, last_pixel - begin), -1, 0
            for item in range(first_item, last_item):
                group, k = item // blocks, item % blocks * BLOCK
                if group != filled:
                    filled, taken = group, 0
                    for i in range(number):
                        kind = classes[begin + i]
                        if count[kind] > 0:
                            base = bases[begin + i] + group * channels * images
                            fill_panel(
                                tiles.pairs, own, taken * panel, depth, inputs, base, images,
                                channels, whole, segments, first[kind], count[kind],
                            )  # fmt: skip
                            taken += 1
                here = min(BLOCK, filters - k)
                rows = (here + TILE - 1) // TILE
                if packs:
                    pack_block(
                        packing, weights, group, k, here, filters, channels, kernel_size[0],
                        kernel_size[1], backward, depth, own, at_weights,
                    )  # fmt: skip
                _multiply_pixels(
                    tiles, rows, own, at_products, own if packs else packed,
                    at_weights if packs else item * block_size, depth, images, classes, begin,
                    number, count, run_steps, first_run, run_number,
                )  # fmt: skip
                k += group * filters
                place = at_products
                for pixel in range(begin, begin + number):
                    has_taps = count[classes[pixel]] > 0
                    call_tile(
                        tiles.finish, out, pixel * out_distance + k * images, images, own,
                        place if has_taps else at_zeros, rows * TILE * LANES, bias, k, mask,
                        pixel * mask_distance + k * images, mode, here, with_moments, own_sums,
                        k * SUMS, own_pivots, k, pixel == first_pixel, real,
                    )  # fmt: skip
                    place += images * rows * TILE * has_taps
            summed += number
            enough = begin == first_pixel or summed * images >= SUMMED_VALUES
            if with_moments and (enough or begin + at_once >= last_pixel):
                join_sums(
                    own_sums, own_pivots, totals[thread], first_filter, last_filter, summed,
                    real_images,
                )  # fmt: skip
                summed = 0
        finish_stores()


@dataclass(frozen=True, slots=True)
class AmxOuterProducts:
    """The tiles with which `WeightsGradient` sums pairs of images; unless `native` emulated."""

    native: bool

    def rows(self, channels: int) -> int:
        """Return how many channels a tile of sums has, two of AMX's at most, for the least work."""
        heights = {min(channels, BLOCK), min(channels, TILE)}
        tiles = {rows: -(-channels // rows) * -(-rows // TILE) for rows in heights}
        return min(sorted(heights, reverse=True), key=tiles.__getitem__)

    def kernel(self, rows: int, images: int, columns: tuple[int, ...]) -> Callable[..., None]:
        """Return the kernel of so many rows, over so many pairs of images."""
        tiles = tiles_of(AMX_OUTER_PRODUCT, rows, columns, images, int(self.native))
        last = TURN_HALF.address() if images % LANES else NO_TILE
        return weights_gradient_by(tiles, images, last)
