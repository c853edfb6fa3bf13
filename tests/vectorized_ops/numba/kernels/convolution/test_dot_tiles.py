from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import AVX512, LANES, Lanes, tile
from vectorized_ops.numba.kernels.convolution.dot_tiles import (
    ACCUMULATORS,
    DOT_COLUMNS,
    DOT_ROWS,
    cheapest_rows,
    dot_tile,
    product_tile,
    sum_lanes,
)

UNTOUCHED = -77.0


@kernel
def product_2_by_3(out: Any, weights: Any, step: int, inputs: Any, offsets: Any) -> None:
    product_tile(
        2, 3, out, 7, out.shape[1], weights, 1, weights.shape[1], step,
        inputs, 4, offsets, len(offsets),
    )  # fmt: skip


@kernel
def product_5_by_1(out: Any, weights: Any, step: int, inputs: Any, offsets: Any) -> None:
    product_tile(
        5, 1, out, 7, out.shape[1], weights, 1, weights.shape[1], step,
        inputs, 4, offsets, len(offsets),
    )  # fmt: skip


@kernel
def dots(
    out: Any, left: Any, left_offsets: Any, right: Any, right_rows: Any, right_offsets: Any
) -> None:
    dot_tile(
        out, 2, out.shape[1], left, 3, left.shape[1], left_offsets,
        right, 5, right_rows, 1, right_offsets, len(left_offsets),
    )  # fmt: skip


@tile
def sums_tile(typingctx: Any, out: Any, values: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        vectors = [lanes.load(lanes.pointer(1, args[1], i * LANES)) for i in range(LANES)]
        lanes.store(sum_lanes(lanes, vectors), lanes.pointer(0, args[0]))
        return context.get_dummy_value()

    return types.void(out, values), generate


@kernel
def sums(out: Any, values: Any) -> None:
    sums_tile(out, values)


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize(
    ("rows", "columns", "multiply"), [(2, 3, product_2_by_3), (5, 1, product_5_by_1)]
)
def test_product_tile_is_a_product_of_the_taken_rows_and_writes_nothing_else(
    rows: int, columns: int, multiply: Any, steps: int
) -> None:
    width, step = columns * LANES, 2
    weights, inputs = whole_numbers(rows + 1, 1 + step * steps), whole_numbers(20, width + 4)
    taken = np.random.default_rng(steps).permutation(20)[:steps]
    out = np.full((rows + 1, width + 9), UNTOUCHED, np.float32)
    multiply(out, weights, step, inputs, taken * (width + 4))
    expected = np.full_like(out, UNTOUCHED)
    expected[:rows, 7 : 7 + width] = weights[:rows, 1::step] @ inputs[taken, 4:]
    assert_array_equal(out, expected)


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_dot_tile_sums_over_steps_and_lanes_and_writes_nothing_else(steps: int) -> None:
    left = whole_numbers(DOT_ROWS, 3 + 20 * LANES)
    right = whole_numbers(DOT_COLUMNS + 3, 5 + 20 * LANES)
    rng = np.random.default_rng(steps)
    left_steps, right_steps = (rng.permutation(20)[:steps] * LANES for _ in range(2))
    rows = rng.permutation(DOT_COLUMNS + 3)[: DOT_COLUMNS + 1]
    out = np.full((DOT_ROWS + 1, DOT_COLUMNS + 4), UNTOUCHED, np.float32)
    dots(out, left, left_steps, right, rows * right.shape[1], right_steps)
    lane = np.arange(LANES)
    lefts = left[:, (3 + left_steps[:, None] + lane).ravel()]
    rights = right[np.ix_(rows[1:], (5 + right_steps[:, None] + lane).ravel())]
    expected = np.full_like(out, UNTOUCHED)
    expected[:DOT_ROWS, 2 : 2 + DOT_COLUMNS] = lefts @ rights.T
    assert_array_equal(out, expected)


def test_butterfly_sums_the_lanes_of_each_vector() -> None:
    values, out = whole_numbers(LANES, LANES), np.empty(LANES, np.float32)
    sums(out, values)
    assert_array_equal(out, values.sum(axis=1))


def test_butterfly_rounds_alike_wherever_a_vector_stands() -> None:
    # What lets tiles overlap, and threads cut a matrix anywhere, without a change of a bit.
    vector = np.random.default_rng(0).standard_normal(LANES).astype(np.float32)
    out = np.empty(LANES, np.float32)
    sums(out, np.tile(vector, (LANES, 1)))
    assert len(set(out.tolist())) == 1


def test_tiles_leave_registers_for_the_operands() -> None:
    registers = 32 if AVX512 else 16
    assert registers >= ACCUMULATORS + 4
    assert DOT_ROWS * DOT_COLUMNS == LANES


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
