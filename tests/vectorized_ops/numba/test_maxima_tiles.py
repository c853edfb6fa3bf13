"""A line of 3 pixels under 2 windows of 2 columns, and two lines of maxima that are joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._maxima_tiles import joined_maxima_tile, line_maxima_tile
from vectorized_ops.numba._window_blocks import window_blocks
from vectorized_ops.numba.compiler import kernel
from vectorized_ops.shapes import PoolingShape

SHAPE = PoolingShape(8, 3, (2, 2), (1, 1))
VECTORS = 3
SIZE, DISTANCE = VECTORS * LANES, (VECTORS + 1) * LANES
UNTOUCHED = 77


@kernel
def line_maxima(values: Any, places: Any, images: Any, across: Any) -> None:
    line_maxima_tile(
        2, values, LANES, places, images, LANES, LANES, DISTANCE, across, 0, 0, VECTORS
    )


@kernel
def joined(out: Any, which: Any, values: Any, places: Any, table: Any) -> None:
    joined_maxima_tile(
        2, out, LANES, DISTANCE, which, LANES, DISTANCE, values, places, table, 2, VECTORS, False
    )


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
def test_lines_are_joined_from_where_they_wait(special: float) -> None:
    values, places = drawn(1, 2, 2 * SIZE), np.zeros((2, 2 * SIZE), np.uint8)
    values[1, 4] = special
    places[1] = 1
    out, which = surrounded(2 * DISTANCE), surrounded(2 * DISTANCE, np.uint8)
    joined(out, which, values.reshape(-1), places.reshape(-1), np.array([2 * SIZE, 0, 0, 2]))
    lines = values[::-1]  # the first line of the windows waits behind the second
    line = np.where(np.isnan(lines), np.inf, lines).argmax(axis=0)
    expected = np.take_along_axis(lines, line[None], 0)[0].reshape(2, SIZE)
    names = np.where(line == 0, 1, 2).reshape(2, SIZE)
    for found, wanted in ((out, expected), (which, names)):
        pixels = found[LANES : LANES + 2 * DISTANCE].reshape(2, DISTANCE)
        assert_array_equal(pixels[:, :SIZE], wanted)
        assert (pixels[:, SIZE:] == UNTOUCHED).all()
        assert (found[:LANES] == UNTOUCHED).all()
