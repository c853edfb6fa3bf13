from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import (
    COLUMN_ROWS,
    ROWS_1,
    cheapest_rows,
    product_column,
    product_rows,
)

UNTOUCHED = -77.0


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(
    columns=st.integers(1, 9),
    rows=st.integers(0, 2 * ROWS_1 + 3),
    first=st.integers(0, 3),
    steps=st.integers(1, 7),
)
@example(columns=7, rows=ROWS_1 + 1, first=2, steps=3)
def test_rows_of_a_product_are_computed_and_no_others(
    columns: int, rows: int, first: int, steps: int
) -> None:
    last, height, width = first + rows, first + rows + 2, columns * LANES
    weights, inputs = whole_numbers(height, 2 * steps), whole_numbers(2 * steps, width + 5)
    taken = np.arange(steps)[::-1] * 2  # every other row, last first
    out = np.full((height, width + 3), UNTOUCHED, np.float32)
    product_rows(
        columns, first, last, out, 1, width + 3, weights, 0, 2 * steps, 2,
        inputs, 5, taken * (width + 5), steps,
    )  # fmt: skip
    expected = np.full_like(out, UNTOUCHED)
    expected[first:last, 1 : 1 + width] = weights[first:last, ::2] @ inputs[taken, 5:]
    assert_array_equal(out, expected)


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
