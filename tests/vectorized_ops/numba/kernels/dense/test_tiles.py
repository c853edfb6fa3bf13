from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import AVX512, LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.kernels.dense.tiles import ROWS, WIDTH, adding_tile, writing_tile

UNTOUCHED = 77


@kernel
def add_narrow(out: Any, weights: Any, row: int, step: int, inputs: Any, ahead: Any) -> None:
    adding_tile(
        1, out, 7, out.shape[1], weights, 3, row, step, inputs, 5, inputs.shape[1], len(ahead),
        weights, 0, ahead,
    )  # fmt: skip


@kernel
def add_wide(out: Any, weights: Any, row: int, step: int, inputs: Any, ahead: Any) -> None:
    adding_tile(
        2, out, 7, out.shape[1], weights, 3, row, step, inputs, 5, inputs.shape[1], len(ahead),
        weights, 0, ahead,
    )  # fmt: skip


@kernel
def write(out: Any, weights: Any, inputs: Any, past_caches: bool) -> None:
    writing_tile(
        out, WIDTH, out.shape[1], weights, 3, weights.shape[1], 1, inputs, 5, inputs.shape[1],
        len(inputs) - 1, past_caches,
    )  # fmt: skip
    finish_stores()


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("columns", "add"), [(1, add_narrow), (2, add_wide)])
def test_product_is_added_and_nothing_else_written(
    columns: int, add: Any, turned: bool, steps: int
) -> None:
    width = columns * LANES
    weights, inputs = whole_numbers(ROWS + steps + 3, 40), whole_numbers(steps + 1, width + 6)
    out = whole_numbers(ROWS + 1, width + 9)
    taken = weights[:steps, 3 : 3 + ROWS].T if turned else weights[:ROWS, 3 : 3 + steps]
    expected = out.copy()
    expected[:ROWS, 7 : 7 + width] += taken @ inputs[:steps, 5 : 5 + width]
    # What is fetched ahead need not exist.
    ahead = np.full(steps, 2**40)
    add(out, weights, *((1, 40) if turned else (40, 1)), inputs, ahead)
    assert_array_equal(out, expected)


@pytest.mark.parametrize("past_caches", [False, True])
def test_product_is_written_past_the_caches_or_through_them(past_caches: bool) -> None:
    weights, inputs = whole_numbers(ROWS + 2, 12), whole_numbers(10, WIDTH + 6)
    out = aligned_zeros((ROWS + 1, 3 * WIDTH))
    out[...] = UNTOUCHED
    write(out, weights, inputs, past_caches)
    expected = np.full_like(out, UNTOUCHED)
    expected[:ROWS, WIDTH : 2 * WIDTH] = weights[:ROWS, 3:] @ inputs[:9, 5 : 5 + WIDTH]
    assert_array_equal(out, expected)


def test_results_and_operands_fit_the_registers() -> None:
    registers = 32 if AVX512 else 16
    assert registers - 3 <= ROWS * 2 + 3 <= registers
    assert WIDTH == 2 * LANES
