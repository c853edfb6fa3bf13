from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.pooling.tiles import (
    GROUP,
    MEAN_GROUP,
    maximum_tile,
    mean_tile,
    winners_tile,
)

VECTORS, DISTANCE, PIXELS = MEAN_GROUP + GROUP + 1, (MEAN_GROUP + GROUP + 2) * LANES, 5
SOURCES, PLACES = np.array([4, 2, 0, 3, 1]), np.array([9, 2, 200, 7, 4])
FIRST, LAST = 1, 4
UNTOUCHED = 77


FRESH = np.array([1, 4, 0])
"""Pixels that are asked for in advance, which no result shows."""


@kernel
def largest(out: Any, which: Any, images: Any, places: Any, sources: Any, fresh: Any) -> None:
    maximum_tile(
        out, which, LANES, LANES, images, 3, DISTANCE, places, VECTORS, False, sources, FIRST, LAST,
        fresh, 0, 2,
    )  # fmt: skip


@kernel
def winners(
    out: Any, gradient: Any, which: Any, places: Any, sources: Any, last: int, fresh: Any
) -> None:
    winners_tile(
        out, LANES, out, LANES, False, False, False, gradient, 3, DISTANCE, which, 5, DISTANCE,
        places, VECTORS, sources, FIRST, last, fresh, 1, 3,
    )  # fmt: skip


@kernel
def means(out: Any, values: Any, factors: Any, sources: Any, fresh: Any) -> None:
    mean_tile(
        out, LANES, out, LANES, False, False, False, values, 3, DISTANCE, factors, VECTORS, sources,
        FIRST, LAST, fresh, 0, 3,
    )  # fmt: skip


def surrounded(dtype: type = np.float32) -> np.ndarray:
    out = aligned_zeros(((VECTORS + 2) * LANES,), dtype)
    out[:] = UNTOUCHED
    return out


def inside(out: np.ndarray) -> np.ndarray:
    """What was written; what lies around it was not."""
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
    return out[LANES:-LANES]


def whole_numbers(most: int) -> np.ndarray:
    size = PIXELS * DISTANCE + 5
    return np.random.default_rng(most).integers(-most, most + 1, size).astype(np.float32)


def seen(values: np.ndarray, index: int) -> np.ndarray:
    """What each link from FIRST to LAST sees: (links, VECTORS * LANES)."""
    return np.stack(
        [values[index + p * DISTANCE :][: VECTORS * LANES] for p in SOURCES[FIRST:LAST]]
    )


@pytest.mark.parametrize("with_nan", [False, True])
def test_largest_source_wins_and_gives_its_place(with_nan: bool) -> None:
    images, out, which = whole_numbers(1), surrounded(), surrounded(np.uint8)
    images[3:20] = -np.inf
    if with_nan:  # in one lane of one source: the others of the group see the slower way too
        images[3 + 2 * DISTANCE + 4] = np.nan
    largest(out, which, images, PLACES, SOURCES, FRESH)
    sources = seen(images, 3)
    number = np.where(np.isnan(sources), np.inf, sources).argmax(axis=0)
    assert_array_equal(inside(out), np.take_along_axis(sources, number[None], axis=0)[0])
    assert_array_equal(inside(which), PLACES[FIRST:LAST][number])


def test_pixel_gets_the_gradients_of_the_windows_it_has_won() -> None:
    gradient, out = whole_numbers(3), surrounded()
    which = np.random.default_rng(0).choice([2, 7, 200], len(gradient)).astype(np.uint8)
    winners(out, gradient, which, PLACES, SOURCES, LAST, FRESH)
    won = seen(which, 5) == PLACES[FIRST:LAST, None]
    assert_array_equal(inside(out), np.where(won, seen(gradient, 3), 0).sum(axis=0))


def test_pixel_in_no_window_gets_zero() -> None:
    gradient, out = whole_numbers(3), surrounded()
    which = np.zeros(len(gradient), np.uint8)
    winners(out, gradient, which, PLACES, SOURCES, FIRST, FRESH)
    assert not inside(out).any()


def test_means_weigh_each_source() -> None:
    values, out = whole_numbers(5), surrounded()
    factors = np.array([9, 0.25, -1, 0.3, 9], np.float32)
    means(out, values, factors, SOURCES, FRESH)
    expected = np.einsum("lx,l->x", seen(values, 3).astype(np.float64), factors[FIRST:LAST])
    assert_allclose(inside(out), expected, rtol=1e-6, atol=1e-6)
