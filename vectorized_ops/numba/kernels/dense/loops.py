"""The loops of dense layers over blocks of weights.

Weights are read once, in blocks that fit the second-level cache, and each block is used for all
images. A block is copied by long runs of neighbouring weights, because rows of weights often lie
multiples of 4096 bytes apart, and then no cache holds more than a few of them at the same column.
Meanwhile the next block is prefetched. A small weight matrix, which stays in a cache anyway, is
used in place. Sums are taken block by block, always the same blocks, so results do not depend on
the number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.bfloat16 import as_pair, element, store_element
from vectorized_ops.numba.emit.gradient_store import cut_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.raw_arrays import flattened
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.row_tiles import sum_group, transpose_tile
from vectorized_ops.numba.kernels.dense.tiles import (
    ROWS,
    WIDTH,
    adding_tile,
    joined_rows_tile,
    paired_tile,
    writing_tile,
)

LINE = 16
"""Floats in a cache line."""

STAY_CACHED = 1 << 20
"""Weights that are few enough to be found in a cache when they are used again."""


class Blocks(NamedTuple):
    """How a product of a weight matrix, or of its transpose, is cut; strides count weights.

    Result r takes weight (r, t) at r*row + t*step of the weights, and at
    r*packed_row + t*packed_step of a packed block. `by_rows`: neighbouring weights are those of one
    result, otherwise those of one step. Unless `copied`, weights are used where they lie.
    """

    rows: int
    steps: int
    row: int
    step: int
    block_rows: int
    block_steps: int
    packed_row: int
    packed_step: int
    by_rows: bool
    copied: bool

    @property
    def packed_size(self) -> int:
        """Floats of a packed block, and of the line that a tile may read behind it."""
        strides = self.packed_row, self.packed_step
        return max(self.block_rows * strides[0], self.block_steps * strides[1]) + LINE

    def ahead(self) -> Any:
        """Return which weights the steps of a tile fetch, from its first one of the next block."""
        lines, run = (self.block_steps // LINE, self.row) if self.by_rows else (1, self.step)
        step = np.arange(self.block_steps)
        return step // lines * run + step % lines * LINE


def forward_blocks(inputs: int, outputs: int) -> Blocks:
    """Return the blocks of weights @ inputs: runs of 1 KiB along the inputs."""
    copied = inputs * outputs > STAY_CACHED or inputs % 512 == 0
    return Blocks(outputs, inputs, inputs, 1, 16 * ROWS, 256, 256 + LINE, 1, True, copied)


def backward_blocks(inputs: int, outputs: int) -> Blocks:
    """Return the blocks of weights^T @ gradient: runs of 2 KiB along the inputs.

    So few steps that the gradient of 64 images stays in the first cache for all rows of a block.
    """
    copied = inputs * outputs > STAY_CACHED
    rows, steps = 36 * ROWS, 64
    return Blocks(inputs, outputs, 1, inputs, rows, steps, 1, rows + LINE, False, copied)


def chunk_size(columns: int, outputs: int, threads: int) -> int:
    """Return how many blocks of inputs a thread takes at a time for the gradient of weights.

    At most what fits the second cache, and few enough that all threads have a share.
    """
    pieces = -(-outputs // ROWS) * columns
    return max(1, min(1024 // WIDTH, pieces // (4 * threads)))


@parallel_kernel
def multiply(
    out: Any,
    number: int,
    weights: Any,
    inputs: Any,
    bias: Any,
    mask: Any,
    add: bool,
    cut: bool,
    blocks: Any,
    ahead: Any,
    packed: Any,
    spare: Any,
) -> None:
    """Write the product of `blocks` of `weights` with flat inputs (steps, number of images).

    To flat out (rows, number), from zero, or from the bias if there is one, or with `add` to what
    it holds; with `cut` it becomes zero where flat `mask` is not positive. Inputs of bfloat16, an
    even number of steps, are multiplied in pairs. Scratch: packed (threads, packed_size), spare
    (threads, ROWS * number).
    """
    tiles, threads = (blocks.rows + ROWS - 1) // ROWS, packed.shape[0]
    for thread in numba.prange(threads):
        first = part(tiles, thread, threads) * ROWS
        last = min(blocks.rows, part(tiles, thread + 1, threads) * ROWS)
        for top in range(first, last, blocks.block_rows):
            rows = min(blocks.block_rows, last - top)
            if not add:
                _start(out, number, top, rows, bias)
            for step in range(0, blocks.steps, blocks.block_steps):
                _add_block(
                    out, number, weights, inputs, blocks, top, rows, step, ahead,
                    packed[thread], spare[thread],
                )  # fmt: skip
            if cut:
                cut_tile(out, top * number, mask, top * number, rows * number // LANES)


@kernel
def _start(out: Any, number: int, top: int, rows: int, bias: Any) -> None:
    for row in range(top, top + rows):
        out[row * number : (row + 1) * number] = bias[row] if len(bias) else np.float32(0.0)


@kernel
def _add_block(
    out: Any,
    number: int,
    weights: Any,
    inputs: Any,
    blocks: Any,
    top: int,
    rows: int,
    step: int,
    ahead: Any,
    packed: Any,
    spare: Any,
) -> None:
    """Add `rows` rows of the product over one block of steps."""
    steps, flat = min(blocks.block_steps, blocks.steps - step), flattened(weights)
    begin, pairs = top * blocks.row + step * blocks.step, inputs.itemsize == 2
    first = rows - rows % ROWS  # a tile reads ROWS rows, so the last is copied
    if pairs:
        first = 0
        _copy_pairs(flat, begin, rows, steps, blocks, packed)
    else:
        first = 0 if blocks.copied else first
        _copy(flat, begin + first * blocks.row, rows - first, steps, blocks, packed)
    if step + steps < blocks.steps:
        following = begin + blocks.block_steps * blocks.step
    else:
        following = (top + blocks.block_rows) * blocks.row
    for row in range(0, rows, ROWS):
        whole = row + ROWS <= rows
        target, index = (out, (top + row) * number) if whole else (spare, 0)
        if not whole:
            spare[:] = np.float32(0.0)
        source, place = packed, (row - first) * blocks.packed_row
        strides = blocks.packed_row, blocks.packed_step
        if row < first:
            source, place, strides = flat, begin + row * blocks.row, (blocks.row, blocks.step)
        for column in range(0, number, WIDTH):
            _add_tile(
                target, index + column, number, source, place, strides,
                inputs, step * number + column, steps, number - column >= WIDTH,
                flat, following + row * blocks.row, ahead,
            )  # fmt: skip
        if not whole:
            for i in range((rows - row) * number):
                out[(top + row) * number + i] += spare[i]


@kernel
def _copy(weights: Any, index: int, rows: int, steps: int, blocks: Any, out: Any) -> None:
    """Copy a block of weights to `out`."""
    if blocks.by_rows:
        runs, length, stride, out_stride = rows, steps, blocks.row, blocks.packed_row
    else:
        runs, length, stride, out_stride = steps, rows, blocks.step, blocks.packed_step
    for run in range(runs):
        source = weights[index + run * stride : index + run * stride + length]
        target = out[run * out_stride : run * out_stride + length]
        for i in range(length):
            target[i] = source[i]


@kernel
def _copy_pairs(weights: Any, index: int, rows: int, steps: int, blocks: Any, out: Any) -> None:
    """Copy a block of weights, of an even number of steps, as pairs of bfloat16.

    Pair t of result r goes where its step t would.
    """
    if blocks.by_rows:
        vectors = steps // (2 * LANES)
        for row in range(rows):
            source, target = index + row * blocks.row, row * blocks.packed_row
            paired_tile(out, target, weights, source, vectors)
            for pair in range(vectors * LANES, steps // 2):
                place = source + 2 * pair
                out[target + pair] = as_pair(weights[place], weights[place + 1])
        return
    vectors = rows // LANES
    for pair in range(steps // 2):
        source, target = index + 2 * pair * blocks.step, pair * blocks.packed_step
        joined_rows_tile(out, target, weights, source, source + blocks.step, vectors)
        for row in range(vectors * LANES, rows):
            place = source + row
            out[target + row] = as_pair(weights[place], weights[place + blocks.step])


@kernel
def _add_tile(
    out: Any,
    index: int,
    number: int,
    weights: Any,
    weights_index: int,
    strides: Any,
    inputs: Any,
    inputs_index: int,
    steps: int,
    wide: bool,
    later: Any,
    following: int,
    ahead: Any,
) -> None:
    if wide:
        adding_tile(
            2, out, index, number, weights, weights_index, strides[0], strides[1],
            inputs, inputs_index, number, steps, later, following, ahead,
        )  # fmt: skip
    else:
        adding_tile(
            1, out, index, number, weights, weights_index, strides[0], strides[1],
            inputs, inputs_index, number, steps, later, following, ahead,
        )  # fmt: skip


@parallel_kernel
def weights_gradient(
    inputs: Any,
    gradient: Any,
    number: int,
    weights_out: Any,
    bias_out: Any,
    chunk: int,
    past_caches: bool,
    turned: Any,
    edges: Any,
    spare: Any,
    summed: Any,
) -> None:
    """Write the product of flat gradient (outputs, number) and inputs (inputs, number), turned.

    And the sums of the gradient, unless `bias_out` is empty. Threads share out pieces of ROWS
    outputs and `chunk` blocks of inputs, all outputs of a chunk one after another. Scratch: turned
    (ceil(inputs / WIDTH), number, WIDTH), edges (threads, ROWS * number), spare (threads,
    ROWS * WIDTH). All but weights, bias and spare may be pairs of bfloat16 of two images, as uint32
    each; `summed` is the gradient as single values.
    """
    outputs, blocks, threads = weights_out.shape[0], turned.shape[0], edges.shape[0]
    tiles, chunks = (outputs + ROWS - 1) // ROWS, (blocks + chunk - 1) // chunk
    groups = (len(bias_out) + LANES - 1) // LANES
    for thread in numba.prange(threads):
        for block in range(part(blocks, thread, threads), part(blocks, thread + 1, threads)):
            _turn_block(inputs, number, weights_out.shape[1], block, turned)
    for thread in numba.prange(threads):
        first = part(tiles * chunks, thread, threads)
        for piece in range(first, part(tiles * chunks, thread + 1, threads)):
            row, block = piece % tiles * ROWS, piece // tiles * chunk
            source, begin, rows = gradient, row * number, min(ROWS, outputs - row)
            if rows < ROWS:  # a tile reads ROWS rows
                source = edges[thread]
                for i in range(rows * number):
                    source[i] = gradient[begin + i]
                begin = 0
            _write_piece(
                source, begin, number, turned, block, min(block + chunk, blocks),
                weights_out, row, rows, past_caches, spare[thread],
            )  # fmt: skip
        for group in range(part(groups, thread, threads), part(groups, thread + 1, threads)):
            sum_group(summed, group, 0, 1, len(summed) // outputs, bias_out)
        if past_caches:
            finish_stores()


@kernel
def _turn_block(inputs: Any, number: int, rows: int, block: int, out: Any) -> None:
    """Write one block of `out`, rows fastest; rows that do not exist become zero."""
    flat = flattened(out)
    for row in range(block * WIDTH, (block + 1) * WIDTH, LANES):
        target = block * number * WIDTH + row % WIDTH
        for image in range(0, number, LANES):
            if row + LANES <= rows:
                transpose_tile(
                    flat, target + image * WIDTH, WIDTH, inputs, row * number + image, number
                )
            else:
                for i in range(LANES):
                    for j in range(image, image + LANES):
                        value = np.float32(0.0)
                        if row + i < rows:
                            value = element(inputs, (row + i) * number + j)
                        store_element(flat, target + j * WIDTH + i, value)


@kernel
def _write_piece(
    gradient: Any,
    begin: int,
    number: int,
    turned: Any,
    first: int,
    last: int,
    weights_out: Any,
    row: int,
    rows: int,
    past_caches: bool,
    spare: Any,
) -> None:
    width = weights_out.shape[1]
    for block in range(first, last):
        source, column = block * number * WIDTH, block * WIDTH
        if rows == ROWS and column + WIDTH <= width:
            writing_tile(
                weights_out, row * width + column, width, gradient, begin, number, 1,
                turned, source, WIDTH, number, past_caches,
            )  # fmt: skip
        else:
            writing_tile(
                spare, 0, WIDTH, gradient, begin, number, 1, turned, source, WIDTH, number, False
            )
            for i in range(rows):
                for j in range(min(WIDTH, width - column)):
                    weights_out[row + i, column + j] = spare[i * WIDTH + j]
