from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.elementwise.softmax_tiles import softmax_tile

ROW, CLASSES = 2 * LANES, 5


@kernel
def softmax(gradient: Any, logits: Any, count: int, state: Any) -> None:
    softmax_tile(
        gradient, logits, LANES, ROW, CLASSES, np.float32(0.25), np.float32(3.0), count, state
    )


def test_softmax_of_one_vector_of_images_leaves_the_others_alone() -> None:
    logits = np.random.default_rng(0).normal(0, 5, (CLASSES, ROW)).astype(np.float32)
    logits[0, -1] = np.nan
    gradient, state = np.full((CLASSES, ROW), 77, np.float32), np.empty((3, LANES), np.float32)
    softmax(gradient.reshape(-1), logits.reshape(-1), LANES - 2, state)
    seen = logits[:, LANES:-2].astype(np.float64)
    shifted = seen - seen.max(axis=0)
    powers = np.exp(shifted)
    assert_allclose(
        gradient[:, LANES:-2], 3 * (powers / powers.sum(axis=0) - 0.25), rtol=0, atol=1e-6
    )
    assert not gradient[:, -2:].any()
    assert (gradient[:, :LANES] == 77).all()
    expected = [seen.max(axis=0), powers.sum(axis=0), shifted.sum(axis=0)]
    assert_allclose(state[:, :-2], expected, rtol=1e-5)
