from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.tiles import (
    GROUP,
    rectified_gradient_tile,
    rectified_tile,
    sum_tile,
)

from .surroundings import UNTOUCHED, check, surrounded

VECTORS = GROUP + 1


@kernel
def rectified(out: Any, inputs: Any, slope: Any, ceiling: Any) -> None:
    rectified_tile(out, LANES, inputs, 2, VECTORS, slope, ceiling, False)


@kernel
def rectified_gradient(
    out: Any, gradient: Any, outputs: Any, slope: Any, ceiling: Any, add: bool
) -> None:
    rectified_gradient_tile(
        out, LANES, gradient, 1, outputs, 2, VECTORS, slope, ceiling, add, False
    )


@kernel
def summed(out: Any, left: Any, right: Any, floor: Any) -> None:
    sum_tile(out, LANES, left, 1, right, 2, VECTORS, floor, False)


def values_of(kind: int) -> np.ndarray:
    values = np.random.default_rng(kind).integers(-4, 9, VECTORS * LANES + 4).astype(np.float32)
    values[5:8] = [np.nan, np.inf, -np.inf]
    return values


def taken(values: np.ndarray, first: int) -> np.ndarray:
    return values[first : first + VECTORS * LANES]


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_values_are_rectified_from_their_index_on(slope: float) -> None:
    inputs, out = values_of(1), surrounded(VECTORS)
    rectified(out, inputs, np.float32(slope), np.float32(6))
    seen = taken(inputs, 2)
    below = seen * np.float32(slope) if slope else np.zeros_like(seen)
    check(out, np.where(seen < 0, below, np.minimum(seen, 6)))


@pytest.mark.parametrize("slope", [0.0, 0.5])
@pytest.mark.parametrize("add", [False, True])
def test_gradients_are_told_from_the_outputs(slope: float, add: bool) -> None:
    gradient, outputs, out = values_of(2), values_of(3), surrounded(VECTORS)
    rectified_gradient(out, gradient, outputs, np.float32(slope), np.float32(6), add)
    slopes, seen = taken(gradient, 1), taken(outputs, 2)
    below = slopes * np.float32(slope) if slope else np.zeros_like(slopes)
    result = np.where(seen <= 0, below, np.where(seen >= 6, 0, slopes))
    check(out, result + UNTOUCHED if add else result)


def test_sums_are_not_below_the_floor() -> None:
    left, right, out = values_of(4), values_of(5), surrounded(VECTORS)
    right[5:8] = 1  # no inf - inf
    summed(out, left, right, np.float32(2))
    check(out, np.maximum(taken(left, 1) + taken(right, 2), 2))
