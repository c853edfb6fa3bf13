"""Backward-weights of a convolution by Winograd: outer products at every point.

The adjoint of F(m x m, r x r): gradients of m x m pixels and inputs of n x n pixels both become
n*n points, whose products are summed over tiles and images; at the end the sums become r x r taps.
As in `winograd`, a thread takes some items (tiles of some images) at a time. As in
`weights_gradient`, gradients are transposed so that filters are lanes. Where sums for each thread
would take too much memory, threads share items and sums, and each takes some panels of filters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numba

from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.direct import Tiles, tiles_of
from vectorized_ops.numba.kernels.convolution.weights_gradient import (
    PANEL,
    PANEL_COLUMNS,
    turn_pixel,
)
from vectorized_ops.numba.kernels.convolution.weights_gradient_tiles import GATHER, POINT_SUMS
from vectorized_ops.numba.kernels.convolution.winograd import GAP
from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import (
    Ends,
    tiles_of_kinds,
    used_points,
)
from vectorized_ops.numba.kernels.convolution.winograd_transforms import (
    SQUARE_GRADIENT,
    SQUARE_INPUT,
    SQUARE_TAPS,
)


class SumTiles(NamedTuple):
    """The functions of backward-weights by F(m x m, r x r): n, m, and by kind those of its tiles.

    `piece` is the images of an item, `used` tells which points each kind has; `products` are those
    at each point.
    """

    side: int
    outputs: int
    piece: int
    used: Any
    inputs: Any
    gradients: Any
    products: Tiles


@functools.cache
def square_sums_kernel(
    outputs: int,
    taps: int,
    rows: int,
    piece: int,
    ends: Ends,
    columns: tuple[int, ...],
    bfloat16: tuple[str, ...] = (),
    pairs: bool = False,
) -> Callable[..., None]:
    """Return the kernel that sums the points' products.

    Its tiles have so many `rows` (channels), its items `piece` images, a share of all. `ends` are
    those of the map of the gradient, `columns` those of its panels. `bfloat16` names what of the
    arrays of inputs' tiles is of that type. With `pairs` all points are pairs of bfloat16, of two
    neighbouring images each.
    """
    tiles = SumTiles(
        outputs + taps - 1,
        outputs,
        piece,
        used_points(outputs, taps, ends),
        tiles_of_kinds(SQUARE_INPUT, outputs, taps, ends, bfloat16=bfloat16 + ("out",) * pairs),
        tiles_of_kinds(SQUARE_GRADIENT, outputs, taps, ends, int(pairs)),
        tiles_of(POINT_SUMS, rows, columns, piece // (1 + pairs), int(pairs)),
    )
    return partial(_sum_points, tiles, 1 + pairs)


@parallel_kernel
def _sum_points(
    tiles: Any,
    together: int,
    inputs: Any,
    distance: int,
    size: tuple[int, int],
    channels: int,
    gradient: Any,
    gradient_distance: int,
    out_size: tuple[int, int],
    filters: int,
    images: int,
    padding: tuple[int, int],
    starts: Any,
    widths: Any,
    sums: Any,
    bias_sums: Any,
    transformed: Any,
    lefts: Any,
    turned: Any,
    panels: Any,
    zeros: Any,
    at_once: int,
    items: Any,
    parts: Any,
) -> None:
    """Fill `sums` (shares, n*n, panels, row blocks, rows, PANEL) and `bias_sums`.

    `transformed`, `turned` and `panels` are scratch, a row per thread. `items` and `parts` are
    those of `Items` for so many shares; the threads of a share divide the panels. `lefts` is
    `transformed` as float32, of which one holds `together` images.
    """
    points, outputs, piece = tiles.side * tiles.side, tiles.outputs, tiles.piece
    rows, area = tiles.products.rows, outputs * outputs
    threads, shares, panel_columns = transformed.shape[0], sums.shape[0], len(starts)
    team = threads // shares
    row_blocks, wide = (channels + rows - 1) // rows, channels * piece
    left_step = at_once * wide + GAP
    of_column = row_blocks * rows * PANEL
    for thread in numba.prange(threads):
        share, member = thread // team, thread % team
        first_column = part(panel_columns, member, team)
        last_column = part(panel_columns, member + 1, team)
        own, own_bias = sums[share], bias_sums[share]
        own_bias[first_column * PANEL : last_column * PANEL] = 0.0
        for point in range(points):
            begin = point * panel_columns
            own[(begin + first_column) * of_column : (begin + last_column) * of_column] = 0.0
        for first in range(parts[share], parts[share + 1], at_once):
            number = min(at_once, parts[share + 1] - first)
            for t in range(number):
                begin, y, x, kind = items[first + t]
                call_tile(
                    tiles.inputs[kind], transformed[thread], t * wide, left_step, inputs, begin,
                    y - padding[0], x - padding[1], size[0], size[1], distance, zeros, channels,
                    images, piece, piece // LANES,
                )  # fmt: skip
            for column in range(first_column, last_column):
                vectors, wide_panel = widths[column], widths[column] == PANEL_COLUMNS
                pixel_size = piece * vectors * LANES
                panel_size = pixel_size // together
                right_step = at_once * panel_size + GAP
                for t in range(number):
                    begin, y, x, kind = items[first + t]
                    for cell in range(area):
                        line, pixel = y + cell // outputs, x + cell % outputs
                        if line < out_size[0] and pixel < out_size[1]:
                            source = (line * out_size[1] + pixel) * gradient_distance + begin
                            turn_pixel(
                                turned[thread], cell * pixel_size, vectors, own_bias,
                                column * PANEL, gradient, source + starts[column] * images,
                                filters, images, piece, False,
                            )  # fmt: skip
                    call_tile(
                        tiles.gradients[kind], panels[thread], t * panel_size, right_step,
                        turned[thread], pixel_size, panel_size // LANES, vectors,
                    )  # fmt: skip
                for point in range(points):
                    t = 0
                    while t < number:
                        run = 0  # of items that have this point
                        while t + run < number and tiles.used[items[first + t + run, 3], point]:
                            run += 1
                        left = (point * left_step + t * wide) // together
                        right = point * right_step + t * panel_size
                        t += run + 1
                        if run == 0:
                            continue
                        call_tile(
                            tiles.products.wide if wide_panel else tiles.products.narrow,
                            own, (point * panel_columns + column) * of_column, rows * PANEL,
                            lefts[thread], left, wide // together, panels[thread], right,
                            panel_size, run, channels,
                        )  # fmt: skip


@functools.cache
def square_taps_kernel(outputs: int, taps: int) -> Callable[..., None]:
    """Return the kernel that adds the threads' sums and turns points into taps."""
    tile, gather = SQUARE_TAPS.address(outputs, taps), GATHER.address(0)
    return partial(_write_taps, (outputs + taps - 1) ** 2, taps**2, tile, gather)


@parallel_kernel
def _write_taps(
    points: int, area: int, tile: int, gather: int, sums: Any, rows: int, channels: int,
    starts: Any, widths: Any, of_filter: Any, scratch: Any, out: Any,
) -> None:  # fmt: skip
    """Write weights (K, channels, r, r), flat.

    `scratch` is (threads, n*r*r, LANES), n being the channels that are turned at once.
    """
    threads, shares, columns = scratch.shape[0], sums.shape[0], len(starts)
    row_blocks, at_once = (channels + rows - 1) // rows, scratch.shape[1] // area
    point = columns * row_blocks * rows * PANEL
    chunks = (channels + at_once - 1) // at_once
    for adder in numba.prange(threads if shares > 1 else 0):
        first, last = part(points * point, adder, threads), part(points * point, adder + 1, threads)
        for other in range(1, shares):
            for place in range(first, last):
                sums[0, place] += sums[other, place]
    for thread in numba.prange(threads):
        own = scratch[thread]
        for item in range(
            part(columns * chunks, thread, threads), part(columns * chunks, thread + 1, threads)
        ):
            column, first_c = item // chunks, item % chunks * at_once
            number, wide = min(at_once, channels - first_c), widths[column] * LANES
            for vector in range(widths[column]):
                for i in range(number):
                    block = (first_c + i) // rows
                    row = first_c + i - min(block * rows, channels - rows)
                    begin = (column * row_blocks + block) * rows * PANEL + row * wide
                    call_tile(tile, own[i * area], sums[0], begin + vector * LANES, point)
                k = starts[column] + vector * LANES
                whole = k + LANES <= len(of_filter)
                if whole and of_filter[k] == column and of_filter[k + LANES - 1] == column:
                    call_tile(
                        gather, out, (k * channels + first_c) * area, channels * area, own, 0, 0, 1,
                        area * LANES, LANES, area, number * area,
                    )  # fmt: skip
                    continue
                for lane in range(LANES):
                    if k + lane < len(of_filter) and of_filter[k + lane] == column:
                        weight = ((k + lane) * channels + first_c) * area
                        for q in range(number * area):
                            out[weight + q] = own[q, lane]
