"""Lines of 2 windows of 3 x 2 pixels, which give to 3 pixels of the lines that they see."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.argmax_places import NOWHERE
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.pooling.blocks import pixel_blocks
from vectorized_ops.numba.kernels.pooling.max_backward_tiles import (
    delivered_tile,
    line_winners_tile,
)
from vectorized_ops.shapes import PoolingShape

SHAPE = PoolingShape(8, 3, (3, 2), (1, 1))
VECTORS = 3
SIZE, DISTANCE = VECTORS * LANES, (VECTORS + 1) * LANES
UNTOUCHED = 77


@kernel
def line_winners(
    rows: int, out: Any, mask: Any, sums: Any, gradient: Any, which: Any, table: Any, delivers: int,
    nowhere: Any, across: Any, row: int, add: bool, masked: bool,
) -> None:  # fmt: skip
    line_winners_tile(
        rows, 3, 2, out, DISTANCE, mask, SIZE, sums, 3 * SIZE, 6 * SIZE, gradient, DISTANCE, which,
        DISTANCE, table, 0, delivers, nowhere, across, row, row, VECTORS, add, masked, False,
    )  # fmt: skip


@kernel
def delivered(out: Any, mask: Any, sums: Any, add: bool, masked: bool) -> None:
    delivered_tile(out, LANES, DISTANCE, mask, 0, SIZE, sums, SIZE, 2, VECTORS, add, masked, False)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("delivers", [0, 1, 2])
@pytest.mark.parametrize("add, masked", [(False, False), (True, True)])
def test_each_window_adds_its_gradient_to_the_pixel_that_won(
    rows: int, delivers: int, add: bool, masked: bool
) -> None:
    rng = np.random.default_rng(0)
    gradient = rng.choice([-3, 1, 5, np.nan, np.inf], (rows, 2, DISTANCE)).astype(np.float32)
    which = rng.integers(0, 6, (rows, 2, DISTANCE)).astype(np.uint8)
    waiting = rng.integers(-9, 9, (2, 3, SIZE)).astype(np.float32)
    mask = rng.integers(-2, 3, (rows, 3, SIZE)).astype(np.float32)
    sums = np.concatenate([waiting.reshape(-1), np.zeros(SIZE, np.float32)])  # and what is spare
    out = aligned_zeros((LANES + rows * 3 * DISTANCE,))
    out[:] = UNTOUCHED
    table, starts = pixel_blocks(SHAPE), np.zeros((6, 2), np.int64)
    line = np.arange(rows)
    starts[0, :rows] = starts[1, :rows] = line * 2 * DISTANCE
    starts[4, :rows], starts[5, :rows] = LANES + line * 3 * DISTANCE, line * 3 * SIZE
    for block in range(len(table)):
        line_winners(
            rows, out, mask.reshape(-1), sums, gradient.reshape(-1), which.reshape(-1),
            starts.reshape(-1), delivers, np.full(SIZE, NOWHERE, np.uint8), table.reshape(-1),
            block * table.shape[1], add, masked,
        )  # fmt: skip
    totals = np.concatenate([waiting, np.zeros((rows, 3, SIZE), np.float32)])
    for row, y, window, x in product(range(rows), range(3), range(2), range(2)):
        won = which[row, window, :SIZE] == 2 * y + x
        more = np.where(won, gradient[row, window, :SIZE], np.float32(0))
        totals[row + y, window + x] += more
    assert_array_equal(sums[: 6 * SIZE].reshape(2, 3, SIZE), totals[rows:])
    expected = totals[:rows] + UNTOUCHED * add
    if masked:
        expected[mask <= 0] = 0
    pixels = out[LANES:].reshape(rows, 3, DISTANCE)
    assert_array_equal(pixels[delivers:, :, :SIZE], expected[delivers:])
    assert (pixels[:delivers] == UNTOUCHED).all()
    assert (pixels[:, :, SIZE:] == UNTOUCHED).all()
    assert (out[:LANES] == UNTOUCHED).all()


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_sums_are_delivered_to_their_pixels(add: bool, masked: bool) -> None:
    sums, mask = np.random.default_rng(1).integers(-2, 3, (2, 3, SIZE)).astype(np.float32)
    out = aligned_zeros((LANES + 2 * DISTANCE,))
    out[:] = UNTOUCHED
    delivered(out, mask.reshape(-1), sums.reshape(-1), add, masked)
    pixels, expected = out[LANES:].reshape(2, DISTANCE), sums[1:] + UNTOUCHED * add
    if masked:
        expected[mask[:2] <= 0] = 0
    assert_array_equal(pixels[:, :SIZE], expected)
    assert (pixels[:, SIZE:] == UNTOUCHED).all()
    assert (out[:LANES] == UNTOUCHED).all()
