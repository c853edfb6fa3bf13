from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.affine_tiles import GROUP, affine_tile

VECTORS = GROUP + 1
UNTOUCHED = 77


@kernel
def applied(out: Any, values: Any, factor: Any, summand: Any, add: bool, past: bool) -> None:
    affine_tile(out, LANES, out, LANES, values, 1, VECTORS, factor, summand, add, False, past)


@pytest.mark.parametrize(("add", "past"), [(False, False), (True, False), (False, True)])
def test_only_the_vectors_asked_for_are_written(add: bool, past: bool) -> None:
    values = np.random.default_rng(0).integers(-9, 10, 1 + VECTORS * LANES).astype(np.float32)
    out = aligned_zeros(((VECTORS + 2) * LANES,))
    out[...] = UNTOUCHED
    applied(out, values, np.float32(0.5), np.float32(3), add, past)
    assert_array_equal(out[LANES:-LANES], 0.5 * values[1:] + 3 + UNTOUCHED * add)
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
