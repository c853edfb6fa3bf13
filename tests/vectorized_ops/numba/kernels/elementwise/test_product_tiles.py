from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.product_tiles import (
    GROUP,
    channel_product_tile,
    pixel_products_tile,
)

VECTORS = GROUP + 1
PIXELS, DISTANCE = 3, (VECTORS + 2) * LANES
UNTOUCHED = 77


@kernel
def products(out: Any, values: Any, factors: Any, add: bool, past: bool) -> None:
    channel_product_tile(out, LANES, out, LANES, values, 1, factors, 2, VECTORS, add, False, past)


@kernel
def sums(out: Any, left: Any, right: Any, pixels: int, add: bool) -> None:
    pixel_products_tile(
        out, LANES, out, LANES, left, 1, DISTANCE, right, 2, DISTANCE, pixels, VECTORS, add,
        False, False,
    )  # fmt: skip


def drawn(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(-4, 5, size).astype(np.float32)


def to_write() -> np.ndarray:
    out = aligned_zeros(((VECTORS + 2) * LANES,))
    out[...] = UNTOUCHED
    return out


@pytest.mark.parametrize(("add", "past"), [(False, False), (True, False), (False, True)])
def test_products_reach_the_vectors_asked_for_and_no_other(add: bool, past: bool) -> None:
    out, values, factors = to_write(), drawn(1 + VECTORS * LANES), drawn(2 + VECTORS * LANES)
    products(out, values, factors, add, past)
    assert_array_equal(out[LANES:-LANES], values[1:] * factors[2:] + UNTOUCHED * add)
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("pixels", [0, PIXELS])
def test_sums_over_pixels_reach_the_vectors_asked_for(pixels: int, add: bool) -> None:
    out, left, right = to_write(), drawn(PIXELS * DISTANCE), drawn(PIXELS * DISTANCE + 1)
    sums(out, left, right, pixels, add)
    expected = np.full(VECTORS * LANES, UNTOUCHED * add, np.float32)
    for pixel in range(pixels):
        begin, count = pixel * DISTANCE, VECTORS * LANES
        expected += left[begin + 1 :][:count] * right[begin + 2 :][:count]
    assert_array_equal(out[LANES:-LANES], expected)
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
