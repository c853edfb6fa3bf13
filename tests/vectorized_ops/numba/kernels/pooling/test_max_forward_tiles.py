"""A line of 3 pixels under 2 windows of 2 columns, and lines of windows of 3 lines joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.pooling.blocks import READ, window_blocks
from vectorized_ops.numba.kernels.pooling.max_forward_tiles import (
    joined_maxima_tile,
    line_maxima_tile,
)
from vectorized_ops.shapes import PoolingShape

SHAPE = PoolingShape(8, 3, (2, 2), (1, 1))
VECTORS = 3
SIZE, DISTANCE = VECTORS * LANES, (VECTORS + 1) * LANES
LINE = 2 * DISTANCE
UNTOUCHED = 77


@kernel
def line_maxima(values: Any, places: Any, images: Any, across: Any) -> None:
    line_maxima_tile(2, 1, values, LANES, places, images, LANES, DISTANCE, across, 0, 0, VECTORS)


@kernel
def joined(
    rows: int, stride: int, out: Any, which: Any, values: Any, places: Any, images: Any, table: Any,
    across: Any,
) -> None:  # fmt: skip
    if stride == 1:
        joined_maxima_tile(
            rows, 3, 2, 1, out, LANES, LINE, DISTANCE, which, LANES, LINE, DISTANCE, values, places,
            2 * SIZE, images, table, 0, DISTANCE, across, 0, 0, VECTORS, False,
        )  # fmt: skip
    else:
        joined_maxima_tile(
            rows, 3, 2, 2, out, LANES, LINE, DISTANCE, which, LANES, LINE, DISTANCE, values, places,
            2 * SIZE, images, table, 0, DISTANCE, across, 0, 0, VECTORS, False,
        )  # fmt: skip


def surrounded(size: int, dtype: type = np.float32) -> np.ndarray:
    out = aligned_zeros((LANES + size + LANES,), dtype)
    out[:] = UNTOUCHED
    return out


def drawn(seed: int, *shape: int) -> np.ndarray:
    values = np.random.default_rng(seed).choice([-np.inf, -1, 0, 1], shape).astype(np.float32)
    values[..., 2] = -np.inf
    return values


@pytest.mark.parametrize("special", [0, np.nan])
@pytest.mark.parametrize("windows", [1, 2])
def test_neighbours_are_compared_and_the_first_of_equals_is_named(
    special: float, windows: int
) -> None:
    images = drawn(0, 3, DISTANCE)
    images[1, LANES + 3] = special
    table = window_blocks(SHAPE)
    table[:, 2] = windows - 1
    values, places = surrounded(2 * SIZE), surrounded(2 * SIZE, np.uint8)
    flat = np.concatenate([np.zeros(LANES, np.float32), images.reshape(-1)])
    line_maxima(values, places, flat, table.reshape(-1))
    for window in range(windows):
        seen = images[window : window + 2, :SIZE]
        place = np.where(np.isnan(seen), np.inf, seen).argmax(axis=0)
        part = slice(LANES + window * SIZE, LANES + (window + 1) * SIZE)
        assert_array_equal(places[part], place)
        assert_array_equal(values[part], np.take_along_axis(seen, place[None], 0)[0])
    for around in (values, places):
        assert (around[:LANES] == UNTOUCHED).all()
        assert (around[LANES + windows * SIZE :] == UNTOUCHED).all()


@pytest.mark.parametrize("special", [0, np.nan])
@pytest.mark.parametrize("rows, stride", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("windows", [1, 2])
def test_lines_are_joined_with_those_that_wait_and_take_their_place(
    special: float, rows: int, stride: int, windows: int
) -> None:
    overlap, read, columns = 3 - stride, rows * stride, 2 + stride
    values, places = drawn(1, overlap, 2, SIZE), np.zeros((overlap, 2, SIZE), np.uint8)
    places[:, 1] = 1
    before = values.copy(), places.copy()
    images = drawn(2, read, columns, DISTANCE)
    values[0, 0, 4] = before[0][0, 0, 4] = images[-1, -1, 5] = special
    starts = np.zeros(2 * READ + overlap + read, np.int64)
    starts[:read] = np.arange(read) * columns * DISTANCE
    starts[2 * READ :] = 2 * np.arange(overlap + read)  # what a line adds to places
    across = np.array([[0, 1, windows - 1, *range(columns), *range(columns)]])
    out, which = surrounded(rows * LINE), surrounded(rows * LINE, np.uint8)
    joined(
        rows, stride, out, which, values.reshape(-1), places.reshape(-1), images.reshape(-1),
        starts, across.reshape(-1),
    )  # fmt: skip
    made = [along(images[line, :, :SIZE], stride) for line in range(read)]
    lines = [
        np.concatenate(both)
        for both in zip(before, map(np.array, zip(*made, strict=True)), strict=True)
    ]
    for x in range(windows):
        for kept, all_lines in zip((values, places), lines, strict=True):
            assert_array_equal(kept[:, x], all_lines[read:, x])
        for row in range(rows):
            seen = lines[0][row * stride : row * stride + 3, x]
            line = np.where(np.isnan(seen), np.inf, seen).argmax(axis=0)
            place = 2 * line + np.take_along_axis(lines[1][row * stride :, x], line[None], 0)[0]
            at = slice(LANES + row * LINE + x * DISTANCE, LANES + row * LINE + x * DISTANCE + SIZE)
            assert_array_equal(out[at], np.take_along_axis(seen, line[None], 0)[0])
            assert_array_equal(which[at], place)
    for found in (out, which):
        gaps = found[LANES:-LANES].reshape(rows, 2, DISTANCE)
        assert (gaps[:, :, SIZE:] == UNTOUCHED).all()
        assert (gaps[:, windows:] == UNTOUCHED).all()
        assert (found[:LANES] == UNTOUCHED).all()


def along(pixels: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """The maxima of 2 windows of 2 pixels of a line, and their places."""
    values, places = [], []
    for x in range(2):
        seen = pixels[x * stride : x * stride + 2]
        place = np.where(np.isnan(seen), np.inf, seen).argmax(axis=0)
        values.append(np.take_along_axis(seen, place[None], 0)[0])
        places.append(place.astype(np.uint8))
    return np.array(values), np.array(places)
