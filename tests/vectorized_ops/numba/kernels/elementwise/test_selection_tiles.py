from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.selection_tiles import GROUP, selected_tile

ROW = (GROUP + 1) * LANES
RUNS = np.array([[0, 3, 2], [2, -1, 1], [3, 0, 1], [4, 2, 1]])
CHANNELS = 5
UNTOUCHED = 77


@kernel
def selected(
    out: Any, mask: Any, values: Any, runs: Any, add: bool, masked: bool, past: bool
) -> None:
    selected_tile(out, ROW, mask, 2, values, 1, runs, len(runs), ROW, ROW, add, masked, past)


def drawn(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(-4, 5, size).astype(np.float32)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("add", "past"), [(False, False), (True, False), (False, True)])
def test_runs_reach_their_rows_and_no_other(masked: bool, add: bool, past: bool) -> None:
    out = aligned_zeros(((CHANNELS + 2) * ROW,))
    out[...] = UNTOUCHED
    values, mask = drawn(1 + CHANNELS * ROW), drawn(2 + CHANNELS * ROW)
    selected(out, mask, values, RUNS, add, masked, past)
    rows = values[1:].reshape(CHANNELS, ROW)
    expected = np.stack([rows[3], rows[4], 0 * rows[0], rows[0], rows[2]]) + UNTOUCHED * add
    if masked:
        expected[mask[2:].reshape(CHANNELS, ROW) <= 0] = 0
    assert_array_equal(out[ROW:-ROW].reshape(CHANNELS, ROW), expected)
    assert (out[:ROW] == UNTOUCHED).all()
    assert (out[-ROW:] == UNTOUCHED).all()
