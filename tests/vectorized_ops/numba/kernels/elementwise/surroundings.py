"""Room for what a tile writes, with more around it that it must leave alone."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit.lanes import LANES

UNTOUCHED = 77


def surrounded(vectors: int) -> np.ndarray:
    """Room for vectors, with one more before them and one behind."""
    out = aligned_zeros(((vectors + 2) * LANES,))
    out[:] = UNTOUCHED
    return out


def check(out: np.ndarray, expected: np.ndarray) -> None:
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
    assert_array_equal(out[LANES:-LANES], expected)
