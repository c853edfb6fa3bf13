from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vectorized_ops.reference.elastic import (
    elastic_increment,
    elastic_update,
    synchronous_average,
    synchronous_elastic_update,
    synchronous_model_average,
)

ROUNDING = 2.0**-24


def random_vectors(workers: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(workers)
    locals_ = rng.standard_normal((workers, size), np.float32)
    return locals_, rng.standard_normal(size, np.float32)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_elastic_update_follows_zhang_equations_5_and_6_element_by_element(workers: int) -> None:
    locals_, center = random_vectors(workers, 50)
    before, center_before = locals_.tolist(), center.tolist()
    alpha = 0.9 / workers
    synchronous_elastic_update(locals_, center, alpha)
    for k, c in enumerate(center_before):
        column = [row[k] for row in before]
        beta = workers * alpha
        expected_center = (1 - beta) * c + beta * sum(column) / workers
        assert center[k] == pytest.approx(expected_center, abs=40 * ROUNDING)
        for i, x in enumerate(column):
            assert locals_[i, k] == pytest.approx(x - alpha * (x - c), abs=20 * ROUNDING)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_elastic_update_keeps_locals_plus_center_up_to_rounding(workers: int) -> None:
    locals_, center = random_vectors(workers, 1000)
    alpha = np.float32(0.7 / workers)
    pulls = np.abs(alpha * (locals_ - center)).sum(axis=0, dtype=np.float64)
    before = locals_.sum(axis=0, dtype=np.float64) + center
    synchronous_elastic_update(locals_, center, float(alpha))
    after = locals_.sum(axis=0, dtype=np.float64) + center
    results = np.abs(locals_).sum(axis=0, dtype=np.float64) + np.abs(center)
    # One rounding of each result, P - 1 of the sum of the pulls.
    assert np.all(np.abs(after - before) <= ROUNDING * 1.001 * (results + (workers - 1) * pulls))


def test_elastic_update_leaves_equal_vectors_alone() -> None:
    locals_ = np.full((3, 7), 0.3, np.float32)
    center = locals_[0].copy()
    synchronous_elastic_update(locals_, center, 0.3)
    assert np.all(locals_ == np.float32(0.3))
    assert np.all(center == np.float32(0.3))


@pytest.mark.parametrize("average", [synchronous_average, synchronous_model_average])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_average_is_the_mean_and_makes_all_replicas_bit_equal(
    workers: int, average: Callable[..., None]
) -> None:
    locals_, center = random_vectors(workers, 1000)
    expected = locals_.mean(axis=0, dtype=np.float64)
    scale = np.abs(locals_).sum(axis=0, dtype=np.float64)
    center[3] = np.nan
    average(locals_, center)
    assert np.all(np.abs(center - expected) <= 2 * ROUNDING * scale)
    assert all(np.array_equal(local, center) for local in locals_)


def test_increment_is_half_of_an_exchange() -> None:
    """The other half, equation (7), adds it to the center."""
    (local,), center = random_vectors(1, 1000)
    expected, expected_center = local.copy(), center.copy()
    elastic_update(expected, expected_center, 0.3)
    increment = np.empty_like(center)
    elastic_increment(local, center, increment, 0.3)
    assert np.array_equal(local, expected)
    assert np.array_equal(center + increment, expected_center)
    assert np.array_equal(increment, np.float32(0.3) * (random_vectors(1, 1000)[0][0] - center))
