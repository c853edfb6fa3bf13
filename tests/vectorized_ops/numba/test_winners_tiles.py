"""A line of 2 windows of 2 x 2 pixels, which gives to 3 pixels of two lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._places import NOWHERE
from vectorized_ops.numba._window_blocks import pixel_blocks
from vectorized_ops.numba._winners_tiles import delivered_tile, line_winners_tile
from vectorized_ops.numba.compiler import kernel
from vectorized_ops.shapes import PoolingShape

SHAPE = PoolingShape(8, 3, (2, 2), (1, 1))
VECTORS = 3
SIZE, DISTANCE = VECTORS * LANES, (VECTORS + 1) * LANES
UNTOUCHED = 77


@kernel
def line_winners(
    sums: Any, pixel: int, table: Any, fresh: bool, gradient: Any, which: Any, nowhere: Any,
    across: Any, row: int,
) -> None:  # fmt: skip
    line_winners_tile(
        2, 2, sums, pixel * SIZE, table, fresh, gradient, 0, 0, DISTANCE, which, 0, 0, DISTANCE,
        nowhere, across, row, row, VECTORS,
    )  # fmt: skip


@kernel
def delivered(out: Any, mask: Any, sums: Any, add: bool, masked: bool) -> None:
    delivered_tile(out, LANES, DISTANCE, mask, 0, SIZE, sums, SIZE, 2, VECTORS, add, masked, False)


@pytest.mark.parametrize("fresh", [False, True])
def test_each_window_adds_its_gradient_to_the_pixel_that_won(fresh: bool) -> None:
    rng = np.random.default_rng(0)
    gradient = rng.choice([-3, 1, 5, np.nan, np.inf], (2, DISTANCE)).astype(np.float32)
    which = rng.integers(0, 4, (2, DISTANCE)).astype(np.uint8)
    sums = rng.integers(-9, 9, (2, 3, SIZE)).astype(np.float32)
    before, table = sums.copy(), pixel_blocks(SHAPE)
    lines = np.array([3 * SIZE, 0])  # the sums of the upper line wait behind those of the lower
    for block, row in enumerate(table):
        line_winners(
            sums.reshape(-1), row[0], lines, fresh, gradient.reshape(-1), which.reshape(-1),
            np.full(SIZE, NOWHERE, np.uint8), table.reshape(-1), block * table.shape[1],
        )  # fmt: skip
    for line, waiting in ((0, 1), (1, 0)):
        for x in range(3):
            total = np.zeros(SIZE, np.float32) if fresh or line == 1 else before[waiting, x]
            for window in range(max(x - 1, 0), min(x, 1) + 1):
                won = which[window, :SIZE] == 2 * line + x - window
                total = total + np.where(won, gradient[window, :SIZE], np.float32(0))
            assert_array_equal(sums[waiting, x], total)


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
