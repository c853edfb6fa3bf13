from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.parametric_tiles import (
    GROUP,
    parametric_gradient_tile,
    parametric_tile,
)

VECTORS = GROUP + 1
UNTOUCHED = 77


@kernel
def applied(out: Any, values: Any, slope: Any, past: bool) -> None:
    parametric_tile(out, LANES, values, 1, VECTORS, slope, past)


@kernel
def gradient_of(out: Any, values: Any, gradient: Any, slope: Any, sums: Any, add: bool) -> None:
    parametric_gradient_tile(
        out, LANES, out, LANES, values, 1, gradient, 0, VECTORS, slope, sums, LANES, add, False,
        False,
    )  # fmt: skip


def whole_numbers(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, size).astype(np.float32)


@pytest.fixture
def out() -> np.ndarray:
    made = aligned_zeros(((VECTORS + 2) * LANES,))
    made[...] = UNTOUCHED
    return made


@pytest.mark.parametrize("past", [False, True])
def test_only_the_vectors_asked_for_are_written(out: np.ndarray, past: bool) -> None:
    values = whole_numbers(0, 1 + VECTORS * LANES)
    applied(out, values, np.float32(0.5), past)
    assert_array_equal(out[LANES:-LANES], np.where(values[1:] < 0, 0.5 * values[1:], values[1:]))
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()


@pytest.mark.parametrize("add", [False, True])
def test_sums_of_slopes_are_added_to(out: np.ndarray, add: bool) -> None:
    values, gradient = whole_numbers(0, 1 + VECTORS * LANES), whole_numbers(1, VECTORS * LANES)
    sums = np.full(3 * LANES, 5, np.float32)
    gradient_of(out, values, gradient, np.float32(0.5), sums, add)
    below = values[1:] < 0
    expected = np.where(below, 0.5 * gradient, gradient) + UNTOUCHED * add
    assert_array_equal(out[LANES:-LANES], expected)
    expected = (gradient * values[1:])[below].sum()
    assert sums[LANES : 2 * LANES].sum() - 5 * LANES == expected
    assert (sums[:LANES] == 5).all()
    assert (sums[2 * LANES :] == 5).all()


def test_values_without_a_gradient_may_be_no_numbers(out: np.ndarray) -> None:
    values = np.full(1 + VECTORS * LANES, -np.inf, np.float32)
    sums = np.zeros(3 * LANES, np.float32)
    gradient_of(out, values, np.zeros(VECTORS * LANES, np.float32), np.float32(1), sums, False)
    assert not sums.any()
