from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.selection_tiles import (
    GROUP,
    moved_tile,
    nothing_tile,
)

VECTORS = GROUP + 1
UNTOUCHED = 77


@kernel
def moved(out: Any, mask: Any, values: Any, add: bool, masked: bool, past: bool) -> None:
    moved_tile(out, LANES, mask, 2, values, 1, VECTORS, add, masked, past)


@kernel
def nothing(out: Any, mask: Any, add: bool, masked: bool, past: bool) -> None:
    nothing_tile(out, LANES, mask, 2, VECTORS, add, masked, past)


def drawn(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(-4, 5, size).astype(np.float32)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("add", "past"), [(False, False), (True, False), (False, True)])
def test_values_reach_the_vectors_asked_for_and_no_other(
    zeros: bool, masked: bool, add: bool, past: bool
) -> None:
    out = aligned_zeros(((VECTORS + 2) * LANES,))
    out[...] = UNTOUCHED
    values, mask = drawn(1 + VECTORS * LANES), drawn(2 + VECTORS * LANES)
    if zeros:
        nothing(out, mask, add, masked, past)
    else:
        moved(out, mask, values, add, masked, past)
    expected = (0 if zeros else values[1:]) + np.full(VECTORS * LANES, UNTOUCHED * add)
    if masked:
        expected[mask[2:] <= 0] = 0
    assert_array_equal(out[LANES:-LANES], expected)
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
