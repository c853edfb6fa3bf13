"""The loops of Winograd convolution F(m x m, r x r), stride 1, over tiles, points and filters.

An item is a tile of some images. A thread takes some items at a time: it transforms their inputs to
points (n*n, items, C, images), multiplies at every point with that point's weights (filters x
channels) into products (n*n, items, K, images), and transforms these back into pixels.
Backward-data is the same with the gradient as input, and with the weights turned round and
transposed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba

from vectorized_ops.numba._correlation import TILE_COLUMNS, block_size, weights_step
from vectorized_ops.numba._correlation_tiles import correlation_tile
from vectorized_ops.numba._ends import Ends, used_points
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._row_tiles import transpose_rows_tile
from vectorized_ops.numba._square_tiles import (
    square_input_tile,
    square_output_tile,
    square_weights_tile,
)
from vectorized_ops.numba._streaming import finish_stores
from vectorized_ops.numba._threads import part
from vectorized_ops.numba.compiler import kernel, parallel_kernel

CHANNELS_AT_ONCE = 16
"""Channels of weights that are transformed together: a thread keeps their taps in its cache."""

PIECE = TILE_COLUMNS * LANES
"""Images of an item: those of one register tile, so that an item's points fit into the cache."""

GAP = LANES
"""Floats between points: without it all points of a vector fall into one set of a cache."""


@functools.cache
def gather_kernel(taps: int) -> Callable[..., None]:
    """Return the kernel that reads weights of taps x taps for filters side by side."""
    area = taps * taps
    width = min(area, LANES)

    @kernel
    def gather(
        own: Any, weights: Any, rows: int, filters: int, channels: int, first: int, begin: int,
        number: int, backward: bool,
    ) -> None:  # fmt: skip
        """Write the taps of `rows` filters, as lanes, for channel after channel from `begin` on."""
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
                    transpose_rows_tile(
                        own, (c * area + area - 1 - tap) * LANES, -LANES, width,
                        weights, source + tap, area, rows,
                    )  # fmt: skip
                continue
            for i in range(rows):
                forward = ((first + i) * channels + begin + c) * area
                at = source + i * area if backward else forward
                for tap in range(area):
                    own[c * area + tap, i] = weights[at + (area - 1 - tap if backward else tap)]

    return gather


@functools.cache
def square_weights_kernel(outputs: int, taps: int) -> Callable[..., None]:
    """Return the kernel that transforms weights for F(outputs x outputs, taps x taps)."""
    area, gather = taps * taps, gather_kernel(taps)

    @parallel_kernel
    def transform_weights(
        weights: Any, out: Any, rows: int, filters: int, channels: int, backward: bool, scratch: Any
    ) -> None:
        """Write weights (K, C, r, r), flat, as (n*n, blocks, channels, rows).

        Blocks are `block_size` apart, points `weights_step`. For backward-data `filters` and
        `channels` change roles and taps run backwards. `scratch` is (threads,
        CHANNELS_AT_ONCE * r*r, LANES).
        """
        threads, blocks = scratch.shape[0], (filters + rows - 1) // rows
        size, step = block_size(rows, channels), weights_step(blocks, rows, channels)
        for thread in numba.prange(threads):
            own = scratch[thread]
            for block in range(part(blocks, thread, threads), part(blocks, thread + 1, threads)):
                first = min(block * rows, filters - rows)
                for begin in range(0, channels, CHANNELS_AT_ONCE):
                    number = min(CHANNELS_AT_ONCE, channels - begin)
                    gather(own, weights, rows, filters, channels, first, begin, number, backward)
                    for c in range(number):
                        place = block * size + (begin + c) * rows
                        own_taps = own[c * area : (c + 1) * area]
                        square_weights_tile(outputs, taps, out, place, step, own_taps)

    return transform_weights


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


@functools.cache
def square_kernel(outputs: int, taps: int, rows: int, ends: Ends) -> Callable[..., None]:
    """Return the kernel of F(outputs x outputs, taps x taps) with tiles of so many filters.

    `ends` are those of the map of results.
    """
    points, used = (outputs + taps - 1) ** 2, used_points(outputs, taps, ends)
    (lines, columns), side = ends, outputs + taps - 1

    @parallel_kernel
    def convolve(
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
        segment: Any,
        at_once: int,
        items: Any,
        parts: Any,
    ) -> None:
        """`transformed` and `products` are scratch, a row per thread; segment is (0, 0, C).

        `items` and `parts` are those of `Items`.
        """
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
                    square_input_tile(
                        outputs, taps, lines, columns, kind, points_in, t * wide, in_step, inputs,
                        begin, y - padding[0], x - padding[1], size[0], size[1], distance, zeros,
                        channels, images, PIECE, min(PIECE, images - begin) // LANES,
                    )  # fmt: skip
                for point in range(points):
                    for block in range(blocks):
                        k = min(block * rows, filters - rows)
                        source = point * step + block * block_size(rows, channels)
                        for t in range(number):
                            begin, _, _, kind = items[first + t]
                            target = point * out_step + t * high + k * PIECE
                            start = point * in_step + t * wide
                            if not used[kind, point]:
                                continue
                            coming = coming_pixel(
                                items, min(first + at_once + t, parts[thread + 1] - 1),
                                point // side, point % side, padding, size, distance,
                            )  # fmt: skip
                            # The first blocks fetch a column each, the others nothing new.
                            coming += block % TILE_COLUMNS * LANES
                            coming_step = images if block < TILE_COLUMNS else 0
                            if images - begin >= PIECE:
                                correlation_tile(
                                    rows, TILE_COLUMNS, points_out, target, PIECE,
                                    zeros, 0, weights, source, points_in, start,
                                    segment, 0, 1, zeros, 0, 0, 0, inputs, coming, coming_step,
                                )  # fmt: skip
                            else:
                                correlation_tile(
                                    rows, 1, points_out, target, PIECE,
                                    zeros, 0, weights, source, points_in, start,
                                    segment, 0, 1, zeros, 0, 0, 0, inputs, coming, coming_step,
                                )  # fmt: skip
                for t in range(number):
                    begin, y, x, kind = items[first + t]
                    pixel = y * out_size[1] + x
                    for k in range(filters):
                        for lane in range(0, min(PIECE, images - begin), LANES):
                            target = k * images + begin + lane
                            square_output_tile(
                                outputs, taps, lines, columns, kind, points_out,
                                t * high + k * PIECE + lane, out_step, bias, k,
                                out, pixel * out_distance + target, out_size[1] * out_distance,
                                out_distance, mask, pixel * mask_distance + target,
                                out_size[1] * mask_distance, mask_distance, mode,
                            )  # fmt: skip
            finish_stores()

    return convolve
