from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.activation_tiles import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    GROUP,
)
from vectorized_ops.reference.activation import FUNCTIONS

VECTORS = GROUP + 1
UNTOUCHED = 77
SILU = list(FUNCTIONS).index("silu")


@kernel
def applied(tile: int, out: Any, inputs: Any, past: bool) -> None:
    call_tile(tile, out, LANES, inputs, 2, VECTORS, past)


@kernel
def gradient(tile: int, out: Any, above: Any, inputs: Any, add: bool) -> None:
    call_tile(tile, out, LANES, above, 1, inputs, 2, VECTORS, add, False)


def drawn(offset: int) -> np.ndarray:
    rng = np.random.default_rng(offset)
    return rng.normal(0, 2, offset + VECTORS * LANES).astype(np.float32)


def to_write() -> np.ndarray:
    out = aligned_zeros(((VECTORS + 2) * LANES,))
    out[...] = UNTOUCHED
    return out


@pytest.mark.parametrize("past", [False, True])
def test_only_the_vectors_asked_for_are_written(past: bool) -> None:
    out, inputs = to_write(), drawn(2)
    applied(ACTIVATION.address(SILU), out, inputs, past)
    assert_allclose(out[LANES:-LANES], FUNCTIONS["silu"].values(inputs[2:]), rtol=1e-5)
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()


@pytest.mark.parametrize("add", [False, True])
def test_gradients_are_delivered_to_the_vectors_asked_for(add: bool) -> None:
    out, inputs, above = to_write(), drawn(2), drawn(1)
    gradient(ACTIVATION_GRADIENT.address(SILU), out, above, inputs, add)
    expected = above[1:] * FUNCTIONS["silu"].slopes(inputs[2:]) + UNTOUCHED * add
    assert_allclose(out[LANES:-LANES], expected, rtol=1e-5, atol=1e-6)
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
