"""The loops of 1x1 convolution by Strassen's algorithm, one level, in Winograd's form.

Two pixels and halves of channels (c) and filters (k) make a product of matrices of 2x2 parts,
C = A B, in 7 products instead of 8:

A = weights (k1, k2) x (c1, c2), B = inputs (c1, c2) x (pixel 1, pixel 2), C = results;
S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21, S4 = A12 - S2;
T1 = B12 - B11, T2 = B22 - T1, T3 = B22 - B12, T4 = B21 - T2;
C11 = A11 B11 + A12 B21;
U2 = A11 B11 + S2 T2, U3 = U2 + S3 T3;
C12 = U2 + S1 T1 + S4 B22, C21 = U3 + A22 T4, C22 = U3 + S1 T1.

(Strassen 1969; the form of 15 additions as in Golub and Van Loan, "Matrix Computations", with T4's
sign turned.) Sums of weights are computed once per call, by all threads. Sums of inputs are
computed by each thread, for some pairs of pixels at a time. Partial sums of a tile stay in the
thread's first-level cache. A last odd pixel is computed directly. Memory is (H, W, C, N); all
arrays are flat.
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
from vectorized_ops.numba.kernels.convolution.direct import TILE_COLUMNS, block_size, weights_step
from vectorized_ops.numba.kernels.convolution.row_tiles import transpose_rows_tile
from vectorized_ops.numba.kernels.convolution.strassen_tiles import (
    FINISHED,
    PARTIAL,
    inputs_sums_tile,
    weights_sums_tile,
)
from vectorized_ops.numba.moments import SUMMED_VALUES, join_sums

PARTS = 8
"""Sums of weights: of 7 products, and A21 for a last odd pixel."""

INPUT_SUMS = 4
PARTIAL_SUMS = 3


@parallel_kernel
def pack_parts(
    weights: Any, out: Any, rows: int, filters: int, channels: int, backward: bool, scratch: Any
) -> None:
    """Write the `PARTS` that products are made with, packed in blocks of `rows` filters.

    `filters` and `channels` are halves, at least a vector each; weights are flat (2*filters,
    2*channels), for backward-data (2*channels, 2*filters). Blocks are `block_size` apart, parts
    `weights_step`. `scratch` is (threads, 4 * LANES * LANES or more).
    """
    threads, blocks = scratch.shape[0], (filters + rows - 1) // rows
    size, step = block_size(rows, channels), weights_step(blocks, rows, channels)
    for thread in numba.prange(threads):
        own = scratch[thread]
        for block in range(part(blocks, thread, threads), part(blocks, thread + 1, threads)):
            first = min(block * rows, filters - rows)
            if backward:
                _pack_transposed(
                    weights, out, block * size, step, rows, first, filters, channels, own
                )
                continue
            for c in range(0, channels, LANES):
                at = min(c, channels - LANES)
                for quarter in range(4):
                    line = first + quarter // 2 * filters
                    transpose_rows_tile(
                        own, quarter * LANES * LANES, LANES, LANES, weights,
                        line * 2 * channels + quarter % 2 * channels + at, 2 * channels, rows,
                    )  # fmt: skip
                for i in range(LANES):
                    weights_sums_tile(
                        out, block * size + (at + i) * rows, step,
                        own, i * LANES, (LANES + i) * LANES, (2 * LANES + i) * LANES,
                        (3 * LANES + i) * LANES,
                    )  # fmt: skip


@kernel
def _pack_transposed(
    weights: Any, out: Any, begin: int, step: int, rows: int, first: int, filters: int,
    channels: int, own: Any,
) -> None:  # fmt: skip
    """Write a block for backward-data: its filters lie side by side in the weights."""
    row = 2 * filters
    for c in range(channels - 1):
        upper = c * row + first
        lower = upper + channels * row
        weights_sums_tile(
            out, begin + c * rows, step, weights, upper, lower, upper + filters, lower + filters
        )
    for i in range(rows):  # the vectors of the last would end behind the weights
        upper = (channels - 1) * row + first + i
        lower = upper + channels * row
        own[i], own[LANES + i] = weights[upper], weights[lower]
        own[2 * LANES + i], own[3 * LANES + i] = weights[upper + filters], weights[lower + filters]
    weights_sums_tile(out, begin + (channels - 1) * rows, step, own, 0, LANES, 2 * LANES, 3 * LANES)


class StrassenTiles(NamedTuple):
    """The functions of tiles of so many rows.

    Partial sums are `fresh` or go on from one; results are `finished` from one, or `joined` from
    two.
    """

    rows: int
    fresh: int
    partial: int
    finished: int
    joined: int


@functools.cache
def strassen_kernel(rows: int) -> Callable[..., None]:
    """Return the kernel whose tiles have so many rows."""
    partial_sums = (PARTIAL.address(rows, TILE_COLUMNS, starts) for starts in (0, 1))
    results = (FINISHED.address(rows, TILE_COLUMNS, starts) for starts in (1, 2))
    return partial(_convolve_pairs, StrassenTiles(rows, *partial_sums, *results))


@parallel_kernel
def _convolve_pairs(
    tiles: Any,
    out: Any,
    out_distance: int,
    images: int,
    filters: int,
    pixels: int,
    inputs: Any,
    distance: int,
    channels: int,
    packed: Any,
    bias: Any,
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
    """Write results; `filters` and `channels` are halves, `scratch` has a row per thread."""
    rows = tiles.rows
    pairs, blocks, half = (pixels + 1) // 2, (filters + rows - 1) // rows, channels * images
    size, step = block_size(rows, channels), weights_step(blocks, rows, channels)
    distances = distance, out_distance, mask_distance
    for thread in numba.prange(by_pixels * by_blocks):
        mine, share = thread // by_blocks, thread % by_blocks
        first_pair, last_pair = part(pairs, mine, by_pixels), part(pairs, mine + 1, by_pixels)
        first_block = part(blocks, share, by_blocks)
        last_block = part(blocks, share + 1, by_blocks)
        own, own_sums, own_pivots, summed = scratch[thread], sums[thread], pivots[thread], 0
        turns = max(1, last_block - first_block)
        coming_step = (images + turns - 1) // turns
        if with_moments:
            own_sums[:] = 0.0
            totals[thread] = 0.0
        for begin in range(first_pair, last_pair, at_once):
            end = min(begin + at_once, last_pair)
            for pair in range(begin, min(end, pixels // 2)):
                inputs_sums_tile(
                    own, (pair - begin) * INPUT_SUMS * half, half, inputs,
                    2 * pair * distance, (2 * pair + 1) * distance, half, half // LANES,
                )  # fmt: skip
            for block in range(first_block, last_block):
                done = max(0, (block + 1) * rows - filters)
                k = block * rows - done
                for pair in range(begin, end):
                    coming = min(2 * (pair + at_once), pixels - 2) * distance
                    coming += (block - first_block) * channels * coming_step
                    _write_pair(
                        tiles, 2 * pair, 2 * pair + 1 < pixels, distances, out, images, filters, k,
                        done, inputs, channels, own, (pair - begin) * INPUT_SUMS * half,
                        at_once * INPUT_SUMS * half, packed, block * size, step, coming,
                        coming_step, bias, mask, mode, with_moments, own_sums, own_pivots,
                        pair == first_pair, real,
                    )  # fmt: skip
            summed += min(2 * end, pixels) - 2 * begin
            enough = begin == first_pair or summed * images >= SUMMED_VALUES
            if with_moments and (enough or end == last_pair):
                for block in range(first_block, last_block):
                    for k in (block * rows, filters + block * rows):
                        last = min(k + rows, filters if k < filters else 2 * filters)
                        join_sums(
                            own_sums, own_pivots, totals[thread], k, last, summed, real_images
                        )
                summed = 0
        finish_stores()


@kernel
def _write_pair(
    tiles: Any, pixel: int, whole: bool, distances: tuple[int, int, int], out: Any, images: int,
    filters: int, k: int, done: int, inputs: Any, channels: int, own: Any, input_sums: int,
    partial: int, packed: Any, weights: int, step: int, coming: int,
    coming_step: int, bias: Any, mask: Any, mode: int, wanted: bool, sums: Any, pivots: Any,
    fresh: bool, real: Any,
) -> None:  # fmt: skip
    """Write filters from `k` on, of both halves, at two pixels, or unless `whole` at one."""
    tile = tiles.rows * TILE_COLUMNS * LANES
    half, far = channels * images, filters + k
    first, second = pixel * distances[0], (pixel + 1) * distances[0]
    out_first, out_second = pixel * distances[1], (pixel + 1) * distances[1]
    mask_first, mask_second = pixel * distances[2], (pixel + 1) * distances[2]
    one, two = partial + tile, partial + 2 * tile
    a11, a12, s4, a22 = weights, weights + step, weights + 2 * step, weights + 3 * step
    s1, s2, s3, a21 = (
        weights + 4 * step, weights + 5 * step, weights + 6 * step, weights + 7 * step,
    )  # fmt: skip
    for lane in range(0, images, TILE_COLUMNS * LANES):
        call_tile(
            tiles.fresh, own, partial, 0, 0, packed, a11, inputs, first + lane,
            images, channels, inputs, coming, coming_step,
        )  # fmt: skip
        call_tile(
            tiles.finished, own, partial, 0, packed, a12, inputs, first + half + lane,
            images, channels, inputs, coming + half, coming_step,
            out, out_first + k * images + lane, k, bias, mask, mask_first + k * images + lane,
            mode, done, wanted, sums, pivots, fresh and lane == 0, real, lane,
        )  # fmt: skip
        if not whole:
            call_tile(
                tiles.fresh, own, partial, 0, 0, packed, a21, inputs, first + lane,
                images, channels, inputs, coming, 0,
            )  # fmt: skip
            call_tile(
                tiles.finished, own, partial, 0, packed, a22, inputs,
                first + half + lane, images, channels, inputs, coming, 0,
                out, out_first + far * images + lane, far, bias, mask,
                mask_first + far * images + lane, mode, done, wanted, sums,
                pivots, fresh and lane == 0, real, lane,
            )  # fmt: skip
            continue
        t1 = input_sums + lane
        t2, t3, t4 = t1 + half, t1 + 2 * half, t1 + 3 * half
        coming_second = coming + distances[0]
        call_tile(
            tiles.partial, own, one, partial, 0, packed, s2, own, t2,
            images, channels, inputs, coming_second, coming_step,
        )  # fmt: skip
        call_tile(
            tiles.fresh, own, two, 0, 0, packed, s1, own, t1,
            images, channels, inputs, coming_second + half, coming_step,
        )  # fmt: skip
        call_tile(
            tiles.joined, own, one, two, packed, s4, inputs, second + half + lane,
            images, channels, inputs, coming, 0,
            out, out_second + k * images + lane, k, bias, mask,
            mask_second + k * images + lane, mode, done, wanted, sums, pivots,
            False, real, lane,
        )  # fmt: skip
        call_tile(
            tiles.partial, own, one, one, 0, packed, s3, own, t3,
            images, channels, inputs, coming, 0,
        )  # fmt: skip
        call_tile(
            tiles.finished, own, one, 0, packed, a22, own, t4,
            images, channels, inputs, coming, 0,
            out, out_first + far * images + lane, far, bias, mask,
            mask_first + far * images + lane, mode, done, wanted, sums, pivots,
            fresh and lane == 0, real, lane,
        )  # fmt: skip
        call_tile(
            tiles.joined, own, one, two, packed, a22, own, t4,
            images, 0, inputs, coming, 0,
            out, out_second + far * images + lane, far, bias, mask,
            mask_second + far * images + lane, mode, done, wanted, sums, pivots,
            False, real, lane,
        )  # fmt: skip
