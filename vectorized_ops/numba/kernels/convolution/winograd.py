"""The loops of Winograd convolution F(m x m, r x r), stride 1, over tiles, points and filters.

An item is a tile of some images. A thread takes some items at a time, in three steps:

1. transform their inputs to points (n*n, items, C, images);
2. multiply at every point with its weights (filters x channels): (n*n, items, K, images);
3. transform these products back into pixels.

Backward-data is the same with the gradient as input, and with the weights rotated and transposed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numba

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.direct import (
    TILE_COLUMNS,
    Tiles,
    block_size,
    columns_of,
    pair_rows,
    tiles_of,
    weights_step,
)
from vectorized_ops.numba.kernels.convolution.direct_tiles import POINT
from vectorized_ops.numba.kernels.convolution.row_tiles import TRANSPOSE_ROWS, transpose_rows_tile
from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import (
    Ends,
    tiles_of_kinds,
    used_points,
)
from vectorized_ops.numba.kernels.convolution.winograd_transforms import (
    SQUARE_INPUT,
    SQUARE_OUTPUT,
    SQUARE_WEIGHTS,
)

CHANNELS_AT_ONCE = 16
"""Channels of weights that are transformed together: a thread keeps their taps in its cache."""

PIECE = TILE_COLUMNS * LANES
"""Images of an item: those of one register tile, so that an item's points fit into the cache."""

GAP = LANES
"""Floats between points: without it all points of a vector fall into one set of a cache."""


@kernel
def gather_taps(
    own: Any, weights: Any, rows: int, filters: int, channels: int, first: int, begin: int,
    number: int, backward: bool, area: int, transpose_taps: int,
) -> None:  # fmt: skip
    """Write the taps of `rows` filters, as lanes, for channel after channel from `begin` on.

    They are `area`, of which `transpose_taps` takes as many as a vector has, or all.
    """
    width = min(area, LANES)
    if not backward and number * area >= LANES:
        source = (first * channels + begin) * area
        for q in range(0, number * area, LANES):
            tap = min(q, number * area - LANES)
            transpose_rows_tile(
                own, tap * LANES, LANES, LANES, weights, source + tap, channels * area, rows
            )
        return
    for c in range(number):
        source = ((begin + c) * filters + first) * area
        if backward and source + (rows - 1) * area + max(area, LANES) <= len(weights):
            for q in range(0, area, width):
                tap = min(q, area - width)
                call_tile(
                    transpose_taps, own, (c * area + area - 1 - tap) * LANES, -LANES,
                    weights, source + tap, area, rows,
                )  # fmt: skip
            continue
        for i in range(rows):
            forward = ((first + i) * channels + begin + c) * area
            at = source + i * area if backward else forward
            for tap in range(area):
                own[c * area + tap, i] = weights[at + (area - 1 - tap if backward else tap)]


@functools.cache
def square_weights_kernel(outputs: int, taps: int) -> Callable[..., None]:
    """Return the kernel that transforms weights for F(outputs x outputs, taps x taps)."""
    tile = SQUARE_WEIGHTS.address(outputs, taps)
    return partial(_transform_weights, taps**2, tile, TRANSPOSE_ROWS.address(min(taps**2, LANES)))


@parallel_kernel
def _transform_weights(
    area: int,
    tile: int,
    transpose_taps: int,
    weights: Any,
    out: Any,
    rows: int,
    filters: int,
    channels: int,
    backward: bool,
    scratch: Any,
    points: int,
    pairs: bool,
) -> None:
    """Write weights (K, C, r, r), flat, as (n*n, blocks, channels, rows); `area` is r*r.

    Blocks are `block_size` apart, points `weights_step`. For backward-data `filters` and `channels`
    change roles and taps run backwards. `scratch` is (threads, CHANNELS_AT_ONCE * r*r, LANES). With
    `pairs` rows become pairs, as in `direct.pack_weights`; `points` are n*n.
    """
    threads, blocks = scratch.shape[0], (filters + rows - 1) // rows
    size, step = block_size(rows, channels), weights_step(blocks, rows, channels)
    for thread in numba.prange(threads):
        own = scratch[thread]
        for block in range(part(blocks, thread, threads), part(blocks, thread + 1, threads)):
            first = min(block * rows, filters - rows)
            for begin in range(0, channels, CHANNELS_AT_ONCE):
                number = min(CHANNELS_AT_ONCE, channels - begin)
                gather_taps(
                    own, weights, rows, filters, channels, first, begin, number, backward, area,
                    transpose_taps,
                )  # fmt: skip
                for c in range(number):
                    place = block * size + (begin + c) * rows
                    call_tile(tile, out, place, step, own, c * area * LANES)
            if pairs:
                for point in range(points):
                    pair_rows(out, point * step + block * size, rows, channels // 2)


@kernel
def coming_pixel(
    items: Any, number: int, i: int, j: int, padding: Any, size: Any, distance: int
) -> int:
    """Return where pixel (i, j) of an item's inputs lies, or one nearby if that is outside."""
    begin, y, x, _ = items[number]
    line = min(max(y - padding[0] + i, 0), size[0] - 1)
    column = min(max(x - padding[1] + j, 0), size[1] - 1)
    place: int = (line * size[1] + column) * distance + begin
    return place


class SquareTiles(NamedTuple):
    """The functions of a convolution by F(m x m, r x r): n, and by kind those of its tiles.

    `used` tells which points each kind has; `products` are those at each point.
    """

    side: int
    used: Any
    inputs: Any
    outputs: Any
    products: Tiles


@functools.cache
def square_kernel(
    outputs: int,
    taps: int,
    rows: int,
    ends: Ends,
    images: int,
    inputs: tuple[str, ...] = (),
    results: tuple[str, ...] = (),
    pairs: bool = False,
) -> Callable[..., None]:
    """Return the kernel of F(m x m, r x r) with register tiles of so many rows.

    `ends` are those of the map of results. `inputs` and `results` name what of the arrays of these
    tiles is of bfloat16. With `pairs` the points of inputs are bfloat16 too, and multiplied so.
    """
    points = ("out",) * pairs
    read = ("coming",) * bool(inputs) + ("inputs",) * pairs
    tiles = SquareTiles(
        outputs + taps - 1,
        used_points(outputs, taps, ends),
        tiles_of_kinds(SQUARE_INPUT, outputs, taps, ends, bfloat16=inputs + points),
        tiles_of_kinds(SQUARE_OUTPUT, outputs, taps, ends, bfloat16=results),
        tiles_of(POINT, rows, columns_of(images), PIECE, int(pairs), bfloat16=read),
    )
    return partial(_convolve_points, tiles)


@parallel_kernel
def _convolve_points(
    tiles: Any,
    inputs: Any,
    distance: int,
    size: tuple[int, int],
    channels: int,
    weights: Any,
    bias: Any,
    out: Any,
    out_distance: int,
    out_size: tuple[int, int],
    filters: int,
    images: int,
    padding: tuple[int, int],
    mask: Any,
    mask_distance: int,
    mode: int,
    transformed: Any,
    products: Any,
    zeros: Any,
    at_once: int,
    items: Any,
    parts: Any,
) -> None:
    """`transformed` and `products` are scratch, a row per thread.

    `items` and `parts` are those of `Items`.
    """
    rows, points, side = tiles.products.rows, tiles.side * tiles.side, tiles.side
    threads, blocks = transformed.shape[0], (filters + rows - 1) // rows
    wide, high = channels * PIECE, filters * PIECE
    step = weights_step(blocks, rows, channels)
    in_step, out_step = at_once * wide + GAP, at_once * high + GAP
    for thread in numba.prange(threads):
        points_in, points_out = transformed[thread], products[thread]
        for first in range(parts[thread], parts[thread + 1], at_once):
            number = min(at_once, parts[thread + 1] - first)
            for t in range(number):
                begin, y, x, kind = items[first + t]
                call_tile(
                    tiles.inputs[kind], points_in, t * wide, in_step, inputs, begin,
                    y - padding[0], x - padding[1], size[0], size[1], distance, zeros, channels,
                    images, PIECE, min(PIECE, images - begin) // LANES,
                )  # fmt: skip
            for point in range(points):
                for block in range(blocks):
                    k = min(block * rows, filters - rows)
                    source = point * step + block * block_size(rows, channels)
                    for t in range(number):
                        begin, _, _, kind = items[first + t]
                        target = point * out_step + t * high + k * PIECE
                        start = point * in_step + t * wide
                        if not tiles.used[kind, point]:
                            continue
                        coming = coming_pixel(
                            items, min(first + at_once + t, parts[thread + 1] - 1),
                            point // side, point % side, padding, size, distance,
                        )  # fmt: skip
                        # The first blocks fetch a column each, the others nothing new.
                        coming += block % TILE_COLUMNS * LANES
                        coming_step = images if block < TILE_COLUMNS else 0
                        whole = images - begin >= PIECE
                        call_tile(
                            tiles.products.wide if whole else tiles.products.narrow,
                            points_out, target, weights, source, points_in, start, channels,
                            inputs, coming, coming_step,
                        )  # fmt: skip
            for t in range(number):
                begin, y, x, kind = items[first + t]
                pixel = y * out_size[1] + x
                call_tile(
                    tiles.outputs[kind], points_out, t * high, out_step, bias,
                    out, pixel * out_distance + begin, out_size[1] * out_distance, out_distance,
                    mask, pixel * mask_distance + begin, out_size[1] * mask_distance,
                    mask_distance, mode, filters, PIECE, images,
                    min(PIECE, images - begin) // LANES,
                )  # fmt: skip
        finish_stores()
