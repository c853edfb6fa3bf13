from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.numba.sgd import sgd_update
from vectorized_ops.reference.sgd import sgd_update as reference


def vectors(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    return [rng.standard_normal(size).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("size", [1, 7, 16, 1000])
def test_three_steps_follow_the_reference(size: int, nesterov: bool) -> None:
    found, expected = vectors(size), vectors(size)
    for _ in range(3):
        sgd_update(*found, 0.1, 0.9, 0.01, nesterov)
        reference(*expected, 0.1, 0.9, 0.01, nesterov)
    for got, wanted in zip(found, expected, strict=True):
        assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


def test_neither_another_run_nor_threads_change_a_bit(
    same_bits: Callable[..., None],
) -> None:
    def compute() -> list[np.ndarray]:
        state = vectors(10_001)
        sgd_update(*state, 0.1, 0.9, 0.01, True)
        return state

    same_bits(compute)
