from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.row_tiles import (
    copy_tile,
    row_sums,
    row_sums_tile,
    transpose_rows_tile,
    transpose_tile,
)

UNTOUCHED = 77


@kernel
def transposed(out: Any, values: Any) -> None:
    transpose_tile(out, out.shape[1] + 1, out.shape[1], values, 2, values.shape[1])


@kernel
def transposed_rows(out: Any, values: Any, step: int, rows: int) -> None:
    begin = 2 if step > 0 else 2 - 4 * step
    transpose_rows_tile(out, begin, step, 5, values, 2, values.shape[1], rows)


@kernel
def copied(out: Any, values: Any) -> None:
    copy_tile(out, 3, values, 2)


@kernel
def sums(out: Any, values: Any, pixels: int, vectors: int) -> None:
    row_sums_tile(out, 1, values, 3, values.shape[2], values[0].size, pixels, vectors)


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-9, 10, shape).astype(np.float32)


def test_square_of_lanes_is_transposed_and_nothing_else_written() -> None:
    values = whole_numbers(LANES, LANES + 5)
    out = np.full((LANES + 2, LANES + 3), UNTOUCHED, np.float32)
    transposed(out, values)
    expected = np.full_like(out, UNTOUCHED)
    expected[1 : 1 + LANES, 1 : 1 + LANES] = values[:, 2 : 2 + LANES].T
    assert_array_equal(out, expected)


@pytest.mark.parametrize(("pixels", "vectors"), [(1, 1), (1, 3), (4, 2)])
def test_rows_are_summed_over_pixels_and_vectors(pixels: int, vectors: int) -> None:
    values = whole_numbers(pixels, LANES + 1, vectors * LANES + 3)
    out = np.full(LANES + 2, UNTOUCHED, np.float32)
    sums(out, values, pixels, vectors)
    assert_array_equal(out[1:-1], values[:, :LANES, 3:].sum(axis=(0, 2)))
    assert_array_equal(out[[0, -1]], [UNTOUCHED] * 2)


@pytest.mark.parametrize("rows", [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 5])
def test_any_number_of_rows_is_summed_also_of_a_slice_of_each_pixel(rows: int) -> None:
    values, out = whole_numbers(3, rows + 2, 2 * LANES), np.empty(rows, np.float32)
    row_sums(values[:, 1:].reshape(-1), (rows + 1) * 2 * LANES, 3, 2 * LANES, out)
    assert_array_equal(out, values[:, 1 : 1 + rows].sum(axis=(0, 2)))


def test_a_row_has_the_same_sum_in_two_groups() -> None:
    # What lets the last group overlap the one before it.
    row = np.random.default_rng(0).standard_normal(2 * LANES).astype(np.float32)
    out = np.empty(LANES + 1, np.float32)
    row_sums(np.tile(row, LANES + 1), 0, 1, 2 * LANES, out)
    assert len(set(out.tolist())) == 1


@pytest.mark.parametrize("rows", [1, 3, LANES - 1, LANES])
@pytest.mark.parametrize("backwards", [False, True])
def test_columns_of_some_rows_follow_one_another(rows: int, backwards: bool) -> None:
    values = whole_numbers(rows, LANES + 4)
    step = -LANES if backwards else rows
    out = np.full(2 + 6 * LANES, UNTOUCHED, np.float32)
    transposed_rows(out, values, step, rows)
    for number in range(5):  # what is behind a column is the next one's, or its own last again
        place = 4 - number if backwards else number
        begin = 2 + place * abs(step)
        assert_array_equal(out[begin : begin + rows], values[:, 2 + number])
    assert_array_equal(out[:2], UNTOUCHED)
    assert_array_equal(out[2 + 4 * abs(step) + LANES :], UNTOUCHED)


def test_vector_is_copied_and_nothing_else_written() -> None:
    values, out = whole_numbers(3 * LANES), np.full(3 * LANES, UNTOUCHED, np.float32)
    copied(out, values)
    expected = np.full_like(out, UNTOUCHED)
    expected[3 : 3 + LANES] = values[2 : 2 + LANES]
    assert_array_equal(out, expected)
