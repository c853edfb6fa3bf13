"""Backward-weights convolution: outer products summed over pixels and images.

The map is split into blocks of pixels. For a block and 2*LANES filters the gradient is transposed
into a panel (pixels, N, 2*LANES) that stays in cache while the tiles of all channels and taps use
it. Threads share the blocks of pixels, each with sums of its own, or the filters, or both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import NO_TILE, call_tile
from vectorized_ops.numba.emit.bfloat16 import element, sum_of_pair
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.direct import Tiles, tile_rows, tiles_of
from vectorized_ops.numba.kernels.convolution.weights_gradient_tiles import (
    GATHER,
    OUTER_PRODUCT,
    turn_tile,
)
from vectorized_ops.shapes import FLOAT_BYTES, ConvolutionShape

PANEL_COLUMNS = 2
PANEL = PANEL_COLUMNS * LANES
"""Filters side by side in a panel, and in a tile of sums."""

SMALL_MAP = 64
"""Pixels of a map that is one block, if there are filters enough for all threads."""

BLOCK_PIXELS = 16
"""Pixels of a block of a larger map; two lines of a panel would leave the first-level cache."""

SUMS_BYTES = 1 << 19
"""Sums of its own that a thread keeps in its cache, beside a block of images and its panel."""


@dataclass(frozen=True, slots=True)
class Division:
    """How the work is cut: blocks of lines x pixels, and the threads that share them."""

    lines: int
    pixels: int
    by_pixels: int
    by_filters: int


def divide(shape: ConvolutionShape, panels: int, threads: int) -> Division:
    """Choose blocks, and the division of threads whose busiest thread has the least to do.

    Reading a block's images costs a thread about as much as the products of one tap and panel, and
    loading and storing a panel's sums as those of one more pixel. Sums of its own cost it one
    clearing and one addition to the others' of every weight, and more for each block if they leave
    its cache. Measured on Emerald Rapids, 2 threads.
    """
    pixels = -(-shape.pixels // -(-shape.pixels // BLOCK_PIXELS))
    cuts = [(min(shape.lines, max(1, BLOCK_PIXELS // 2 // pixels)), pixels)]
    if shape.lines * shape.pixels <= SMALL_MAP:
        cuts.insert(0, (shape.lines, shape.pixels))
    divisors = [count for count in range(threads, 0, -1) if threads % count == 0]
    choices = [Division(*cut, count, threads // count) for cut in cuts for count in divisors]
    taps = shape.kernel[0] * shape.kernel[1]
    panel_bytes = shape.weights[1] * taps * PANEL * FLOAT_BYTES

    def cost(choice: Division) -> float:
        blocks = -(-shape.lines // choice.lines) * -(-shape.pixels // choice.pixels)
        own = -(-panels // choice.by_filters)
        block = choice.lines * choice.pixels
        work = (block + 1) * own + block / taps
        work *= -(-blocks // choice.by_pixels) * shape.images
        if choice.by_pixels == 1:
            return work
        return work * (1.0 if own * panel_bytes <= SUMS_BYTES else 1.25) + 16.0 * panels

    return min(choices, key=cost)


@dataclass(frozen=True, slots=True)
class Panels:
    """Where the filters' panels begin and how many vectors wide they are (int64 arrays).

    `of_filter` (K,) is the panel in which the sums of a filter are taken; panels may overlap where
    the number of filters is no multiple of their width.
    """

    starts: AnyArray
    widths: AnyArray
    of_filter: AnyArray

    @property
    def columns(self) -> tuple[int, ...]:
        """How many vectors wide some of them are."""
        return tuple(sorted(set(self.widths.tolist())))


def panels_of(filters: int, groups: int) -> Panels:
    """Cut the filters of each group into panels of two vectors, the rest into narrower ones."""
    share = filters // groups
    starts: list[int] = []
    widths: list[int] = []
    of_filter = np.zeros(filters, np.int64)
    for group in range(groups):
        covered = 0
        while covered < share:
            left = share - covered
            width = PANEL_COLUMNS if left > LANES and filters >= PANEL else 1
            wanted = min(width * LANES, left)
            begin = group * share + covered
            of_filter[begin : begin + wanted] = len(starts)
            starts.append(max(0, min(begin, filters - width * LANES)))
            widths.append(width)
            covered += wanted
    return Panels(np.array(starts), np.array(widths), of_filter)


def sums_size(shape: ConvolutionShape, panels: Panels, rows: int | None = None) -> int:
    """Return how many floats the sums of one thread take, in tiles of so many rows."""
    channels = shape.weights[1]
    rows = tile_rows(channels) if rows is None else rows
    return (
        len(panels.starts)
        * -(-channels // rows)
        * shape.kernel[0]
        * shape.kernel[1]
        * (rows * PANEL)
    )


@kernel
def turn_pixel(
    panel: Any, index: int, width: int, sums: Any, sums_index: int, gradient: Any, source: int,
    filters: int, row: int, images: int, pairs: bool, last: int = NO_TILE,
) -> None:  # fmt: skip
    """Write one pixel of a panel (images, width*LANES) from `filters` rows of the gradient.

    A row, of which the first `images` are used, lies `row` floats behind the one before. With
    `pairs`, an image is a pair of bfloat16 of two of them. Half a vector of images more than whole
    ones is left to `last`, a function of a tile.
    """
    if filters < LANES:
        for i in range(LANES):
            total = np.float32(0.0)
            for n in range(images):
                value = element(gradient, source + i * row + n) if i < filters else np.float32(0.0)
                panel[index + n * LANES + i] = value
                total += sum_of_pair(value) if pairs else value
            sums[sums_index + i] += total
        return
    wide = width * LANES
    whole = images // LANES * LANES
    for n in range(0, whole, LANES):
        for i in range(0, wide, LANES):
            turn_tile(
                panel, index + n * wide + i, wide, sums, sums_index + i,
                gradient, source + i * row + n, row, pairs,
            )  # fmt: skip
    if whole < images:
        for i in range(0, wide, LANES):
            call_tile(
                last, panel, index + whole * wide + i, wide, sums, sums_index + i, gradient,
                source + i * row + whole, row,
            )  # fmt: skip


@functools.cache
def outer_product_kernel(
    rows: int,
    images: int,
    columns: tuple[int, ...],
    pairs: bool = False,
    bfloat16: tuple[str, ...] = (),
) -> Callable[..., None]:
    """Return the kernel whose tiles have so many rows (channels) and sum over so many images.

    `columns` are those of its panels. With `pairs`, images are pairs of bfloat16; `bfloat16` names
    arrays of its tiles that are of that type.
    """
    tiles = tiles_of(OUTER_PRODUCT, rows, columns, images, int(pairs), bfloat16=bfloat16)
    return partial(_weights_gradient, tiles, images, pairs, NO_TILE)


def weights_gradient_by(tiles: Tiles, images: int, last: int) -> Callable[..., None]:
    """Return the kernel of other tiles than `OUTER_PRODUCT`'s, over pairs of images.

    `last` is that of `turn_pixel`.
    """
    return partial(_weights_gradient, tiles, images, True, last)


@parallel_kernel
def _weights_gradient(
    tiles: Any,
    images: int,
    pairs: bool,
    last_images: int,
    inputs: Any,
    inputs_distance: int,
    gradient: Any,
    gradient_distance: int,
    sums: Any,
    bias_sums: Any,
    turned: Any,
    starts: Any,
    widths: Any,
    filters: int,
    channels: int,
    groups: int,
    size: tuple[int, int],
    out_size: tuple[int, int],
    taps: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    block: tuple[int, int],
    by_pixels: int,
    by_filters: int,
) -> None:
    """Fill `sums` and `bias_sums`, one row per share of the pixels; `channels` of a group."""
    rows, area = tiles.rows, taps[0] * taps[1]
    row_blocks = (channels + rows - 1) // rows
    tile_size = rows * PANEL
    across = (out_size[1] + block[1] - 1) // block[1]
    blocks = (out_size[0] + block[0] - 1) // block[0] * across
    panels = len(starts)
    for thread in numba.prange(by_pixels * by_filters):
        mine, share = thread // by_filters, thread % by_filters
        own, panel = sums[mine], turned[thread]
        first, last = part(panels, share, by_filters), part(panels, share + 1, by_filters)
        own[first * row_blocks * area * tile_size : last * row_blocks * area * tile_size] = 0.0
        bias_sums[mine, first * PANEL : last * PANEL] = 0.0
        for number in range(part(blocks, mine, by_pixels), part(blocks, mine + 1, by_pixels)):
            y, x = number // across * block[0], number % across * block[1]
            height, width = min(block[0], out_size[0] - y), min(block[1], out_size[1] - x)
            for column in range(first, last):
                vectors = widths[column]
                pixel_size = images * vectors * LANES
                for at in range(height * width):
                    pixel = (y + at // width) * out_size[1] + x + at % width
                    turn_pixel(
                        panel, at * pixel_size, vectors, bias_sums[mine], column * PANEL,
                        gradient, pixel * gradient_distance + starts[column] * images,
                        filters, images, images, pairs, last_images,
                    )  # fmt: skip
                group = column * groups // panels
                for row_block in range(row_blocks):
                    c = group * channels + min(row_block * rows, channels - rows)
                    for tap in range(area):
                        top = y * stride[0] - padding[0] + tap // taps[1] * dilation[0]
                        left = x * stride[1] - padding[1] + tap % taps[1] * dilation[1]
                        y0, y1 = _inside(top, stride[0], size[0], height)
                        x0, x1 = _inside(left, stride[1], size[1], width)
                        if y0 >= y1 or x0 >= x1:
                            continue
                        target = ((column * row_blocks + row_block) * area + tap) * tile_size
                        pixel = (top + y0 * stride[0]) * size[1] + left + x0 * stride[1]
                        call_tile(
                            tiles.wide if vectors == PANEL_COLUMNS else tiles.narrow,
                            own, target, inputs, pixel * inputs_distance + c * images,
                            stride[1] * inputs_distance, stride[0] * size[1] * inputs_distance,
                            panel, (y0 * width + x0) * pixel_size, pixel_size,
                            width * pixel_size, x1 - x0, y1 - y0,
                        )  # fmt: skip


@kernel
def _inside(begin: int, stride: int, size: int, number: int) -> tuple[int, int]:
    """Return the range of `number` positions begin + i*stride that lie in [0, size)."""
    first = max(0, (stride - 1 - begin) // stride)
    return first, min(number, (size - 1 - begin) // stride + 1)


def gather_sums(
    sums: AnyArray, rows: int, channels: int, taps: int, neighbours: int, panels: Panels,
    turned: bool, out: AnyArray,
) -> None:  # fmt: skip
    """Add up the threads' sums and write them as weights (K, channels, R, S), flat.

    With `turned` and a single tap as weights (channels, K).

    Of `channels` the first of so many `neighbours` (see `few_channels`, otherwise 1) are those of
    one tap, the next of the tap beside it, and so on.
    """
    _gather_sums(
        GATHER.address(int(turned)), sums, rows, channels, taps, neighbours, panels.starts,
        panels.widths, panels.of_filter, turned, out,
    )  # fmt: skip


@parallel_kernel
def _gather_sums(
    gather: int, sums: Any, rows: int, channels: int, taps: int, neighbours: int, starts: Any,
    widths: Any, of_filter: Any, turned: bool, out: Any,
) -> None:  # fmt: skip
    """See `gather_sums`. `gather` is a function of a tile, for whole vectors of filters."""
    row_blocks, of_tap = (channels + rows - 1) // rows, channels // neighbours
    filters, tap_step = len(of_filter), rows * PANEL
    for item in numba.prange(len(starts) * row_blocks):
        column, block = item // row_blocks, item % row_blocks
        first_k = np.searchsorted(of_filter, column)
        last_k = np.searchsorted(of_filter, column + 1)
        first_c, last_c = block * rows, min(channels, (block + 1) * rows)
        step, values = widths[column] * LANES, (last_c - first_c) * taps
        # Where the sum of the first channel and filter lies, and its weight.
        begin = item * taps * tap_step - starts[column]
        begin += (first_c - min(first_c, channels - rows)) * step
        done = first_k
        if neighbours == 1:
            done += (last_k - first_k) // LANES * LANES
            for k in range(first_k, done, LANES):
                target = first_c * filters + k if turned else (k * channels + first_c) * taps
                call_tile(
                    gather, out, target, filters if turned else channels * taps, sums, begin + k,
                    sums.shape[1], sums.shape[0], step, tap_step, taps, values,
                )  # fmt: skip
        for c in range(first_c, last_c):
            neighbour, of_taps = c // of_tap, c % of_tap * taps
            for tap in range(taps):
                place = begin + (c - first_c) * step + tap * tap_step
                for k in range(done, last_k):
                    total = np.float32(0.0)
                    for share in range(sums.shape[0]):
                        total += sums[share, place + k]
                    if turned:
                        out[c * filters + k] = total
                    else:
                        at = k * of_tap * taps + of_taps + tap
                        out[at * neighbours + neighbour] = total


@kernel
def gather_bias(bias_sums: Any, starts: Any, of_filter: Any, out: Any) -> None:
    """Add up the threads' sums of the gradient, a value per filter."""
    for k in range(len(of_filter)):
        column = of_filter[k]
        total = np.float32(0.0)
        for share in range(bias_sums.shape[0]):
            total += bias_sums[share, column * PANEL + k - starts[column]]
        out[k] = total
