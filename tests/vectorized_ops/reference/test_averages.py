from __future__ import annotations

import numpy as np

from vectorized_ops.reference.averages import moving_average, running_average


def test_running_average_is_the_mean_of_all_that_came() -> None:
    came = np.random.default_rng(3).standard_normal((9, 5), np.float32)
    average, count = came[0].copy(), np.ones(5, np.float32)
    for moved in came[1:]:
        running_average(average, count, moved)
    np.testing.assert_allclose(average, came.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert count.tolist() == [9] * 5


def test_moving_average_forgets_by_its_rate() -> None:
    average = np.array([4], np.float32)
    moving_average(average, np.array([8], np.float32), 0.25)
    assert average.tolist() == [5]
