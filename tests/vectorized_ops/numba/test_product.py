from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import COLUMN_ROWS, cheapest_rows, product_column

UNTOUCHED = -77.0


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("height", COLUMN_ROWS)
@pytest.mark.parametrize("more", [0, 1, 5])
def test_column_is_covered_by_tiles_of_any_height(height: int, more: int) -> None:
    rows, steps = height + more, 6
    weights, inputs = whole_numbers(steps, rows + 1), whole_numbers(steps, LANES)
    out = np.full((rows + 2, LANES), UNTOUCHED, np.float32)
    product_column(
        height, rows, out, LANES, weights, 1, rows + 1,
        inputs, 0, np.arange(steps) * LANES, steps,
    )  # fmt: skip
    assert_array_equal(out[1:-1], weights[:, 1:].T @ inputs)
    assert (out[[0, -1]] == UNTOUCHED).all()


@given(
    rows=st.integers(1, 2000),
    heights=st.lists(st.integers(2, 60), unique=True).map(lambda heights: (*heights, 1)),
)
def test_chosen_height_fits_and_no_other_that_fits_is_cheaper(
    rows: int, heights: tuple[int, ...]
) -> None:
    chosen = cheapest_rows(rows, heights)
    assert chosen in heights
    assert chosen <= rows

    def cost(height: int) -> int:
        return -(-rows // height) * (height + 2)

    assert all(cost(chosen) <= cost(height) for height in heights if height <= rows)


def test_chosen_height_of_lenets_filters_wastes_nothing() -> None:
    assert cheapest_rows(50, (25, 20, 16, 8, 1)) == 25
    assert cheapest_rows(20, (25, 20, 16, 8, 1)) == 20
