"""Workers in groups, against formulas in double precision, and what holds whoever is faster."""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import rate_at, start, target, train


@pytest.mark.parametrize("nodes", [1, 2])
def test_hierarchical_sgd_averages_in_groups_and_now_and_then_over_all(nodes: int) -> None:
    periods = {"group_period": 2, "communication_period": 4}
    found = train("hierarchical_sgd", 4, 8, nodes=nodes, group_size=2, **periods)
    locals_ = np.stack([start()] * 4).astype(np.float64)
    center = start().astype(np.float64)
    for step in range(8):
        locals_ -= rate_at(step) * (locals_ - np.stack([target(rank) for rank in range(4)]))
        if step % 2 == 1:
            for group in (slice(0, 2), slice(2, 4)):
                locals_[group] = locals_[group].mean(axis=0)
        if step % 4 == 3:
            center = locals_.mean(axis=0)
            locals_[:] = center
        np.testing.assert_allclose(found.parameters[step], locals_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.models[step], center, rtol=1e-4, atol=1e-5)


def test_shmcaffe_h_of_one_group_is_seasgd_by_the_mean_gradient() -> None:
    found = train("shmcaffe_h", 3, 8, group_size=3, moving_rate=0.2, communication_period=2)
    local, center = start().astype(np.float64), start().astype(np.float64)
    mean = np.mean([target(rank) for rank in range(3)], axis=0)
    for step in range(8):
        local = local - rate_at(step) * (local - mean)
        if step % 2 == 1:
            increment = 0.2 * (local - center)
            local, center = local - increment, center + increment
        np.testing.assert_allclose(found.parameters[step][1], local, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.models[step], center, rtol=1e-4, atol=1e-5)


def test_workers_of_a_group_have_the_same_bits_and_groups_do_not() -> None:
    found = train("shmcaffe_h", 4, 12, freely=True, group_size=2).parameters
    assert np.array_equal(found[:, 0], found[:, 1])
    assert np.array_equal(found[:, 2], found[:, 3])
    assert not np.array_equal(found[-1, 0], found[-1, 2])


@pytest.mark.slow
def test_groups_come_together() -> None:
    apart = train("shmcaffe_h", 4, 60, group_size=2, communication_period=50)
    together = train("shmcaffe_h", 4, 60, group_size=2, communication_period=1)
    distances = [
        np.linalg.norm(found.parameters[-1, 0] - found.parameters[-1, 2])
        for found in (apart, together)
    ]
    assert distances[1] < 0.7 * distances[0]
    middle = np.mean([target(rank) for rank in range(4)], axis=0)
    assert np.linalg.norm(together.models[-1] - middle) < 0.5 * np.linalg.norm(start() - middle)
