from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.channels_last.panel_tiles import PANELS, ROWS
from vectorized_ops.numba.kernels.convolution.destination import MASK, PAST, RELU

STEPS, WIDTH = 5, 3 * LANES


@kernel
def multiply(
    tile: int,
    out: Any,
    start: Any,
    start_row: int,
    mask: Any,
    way: int,
    factors: Any,
    panels: Any,
    tail: int,
) -> None:
    call_tile(
        tile, out, LANES, 3 * LANES, start, 1, start_row, mask, 2, 3 * LANES + 1, way,
        factors, 3, 2 * 5 + 1, 2, panels, LANES, LANES, 7 * LANES, 5, tail, factors, 0, 0,
    )  # fmt: skip


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("way", "tail"),
    [
        *((way, tail) for way in (0, RELU, MASK) for tail in (1, LANES - 1, LANES)),
        *((way, LANES) for way in (PAST, PAST | RELU)),
    ],
)
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_product_is_added_to_its_start_and_nothing_else_written(
    tail: int, rows: int, columns: int, way: int
) -> None:
    width = (columns - 1) * LANES + tail
    out = aligned_zeros((ROWS + 1, WIDTH))
    out[...] = expected = whole_numbers(ROWS + 1, WIDTH)
    factors = whole_numbers(3 + (ROWS + 1) * (2 * STEPS + 1))
    panels = whole_numbers(2, 7, LANES)
    mask, start = whole_numbers(2 + ROWS * (WIDTH + 1)), whole_numbers(1 + ROWS * WIDTH)
    mask[2:5] = np.nan, 0, -0.0
    taken = factors[3:].reshape(-1, 2 * STEPS + 1)[:rows, : 2 * STEPS : 2]
    product = np.einsum("it,jtl->ijl", taken, panels[:, 1 : 1 + STEPS]).reshape(rows, -1)[:, :width]
    tile = PANELS.address(rows, columns)
    for start_row in (0, WIDTH):
        begin = start[1:].reshape(ROWS, WIDTH)[:rows] if start_row else start[1 : 1 + WIDTH]
        wanted = product + begin[..., :width]
        if way & RELU:
            wanted = np.maximum(wanted, 0)
        if way & MASK:
            wanted[mask[2:].reshape(ROWS, WIDTH + 1)[:rows, :width] <= 0] = 0
        expected.reshape(-1)[LANES:][: ROWS * WIDTH].reshape(ROWS, WIDTH)[:rows, :width] = wanted
        # What a masked vector would read beyond its lanes is at the very end of some arrays.
        end = 1 + (rows - 1) * start_row + width
        multiply(
            tile, out.reshape(-1), start[:end].copy(), start_row, mask, way, factors,
            panels.reshape(-1), tail,
        )  # fmt: skip
        assert_array_equal(out, expected)


def test_nan_stays_where_results_are_cut_off() -> None:
    out, factors, panels = (
        np.zeros(4 * LANES, np.float32),
        whole_numbers(40),
        whole_numbers(10, LANES),
    )
    factors[3:] = 1
    panels[3, 2] = np.nan
    nothing = np.zeros(2 * LANES, np.float32)
    multiply(
        PANELS.address(1, 1), out, nothing, 0, nothing, RELU, factors, panels.reshape(-1), LANES
    )
    assert np.isnan(out[LANES + 2])
    assert np.isnan(out).sum() == 1


def test_many_calls_lose_no_precision() -> None:
    out = np.zeros(2 * LANES, np.float32)
    ones, panels = np.ones(40, np.float32), np.full((10, LANES), 0.1, np.float32)
    for _ in range(20_000):
        multiply(
            PANELS.address(1, 1), out, out[LANES - 1 :], 0, out, 0, ones, panels.reshape(-1), LANES
        )
    assert abs(out[LANES] / (20_000 * STEPS * np.float32(0.1)) - 1) < 1e-4
