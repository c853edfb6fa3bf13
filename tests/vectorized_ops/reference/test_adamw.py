from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.adamw import AdamWUpdate

RATES = [1.0, 2.0, 1.0]
DECAYS = [0.1, 0.0, 0.1]
SEGMENTS = ParameterGroups(
    np.array([0, 2, 5, 6], np.int64),
    np.array(RATES, np.float32),
    np.array(DECAYS, np.float32),
    np.array([np.nan, np.nan, 0.25], np.float32),
)
STRETCH = [0, 0, 1, 1, 1, 2]
"""The stretch of each value."""


def test_steps_follow_the_paper_element_by_element() -> None:
    rng = np.random.default_rng(4)
    parameters = rng.standard_normal(6).astype(np.float32)
    first, second = (np.zeros(6, np.float32) for _ in range(2))
    w, m, v = parameters.tolist(), 6 * [0.0], 6 * [0.0]
    update = AdamWUpdate(SEGMENTS, Clipping(), 0.8, 0.95, 1e-3)
    for t, learning_rate in enumerate((0.1, 0.1, 0.05), start=1):
        gradient = rng.standard_normal(6).astype(np.float32)
        update(parameters, gradient, first, second, t, learning_rate)
        for i, s in enumerate(STRETCH[:5]):
            m[i] = 0.8 * m[i] + 0.2 * float(gradient[i])
            v[i] = 0.95 * v[i] + 0.05 * float(gradient[i]) ** 2
            m_hat, v_hat = m[i] / (1 - 0.8**t), v[i] / (1 - 0.95**t)
            w[i] -= learning_rate * RATES[s] * (m_hat / (v_hat**0.5 + 1e-3) + DECAYS[s] * w[i])
        w[5] -= 0.25 * float(gradient[5])
    assert_allclose(parameters, w, rtol=1e-5, atol=1e-6)
    assert_allclose(first, m, rtol=1e-5, atol=1e-7)
    assert_allclose(second, v, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_first_step_is_the_learning_rate_against_the_gradient_s_sign(size: float) -> None:
    parameters = np.zeros(6, np.float32)
    gradient = np.array([size, -size, size, -size, size, 0], np.float32)
    moments = np.zeros((2, 6), np.float32)
    AdamWUpdate(SEGMENTS, Clipping(), 0.9, 0.999, 1e-12)(parameters, gradient, *moments, 1, 0.01)
    assert_allclose(parameters, [-0.01, 0.01, -0.02, 0.02, -0.02, 0], rtol=1e-4)


def test_decay_is_not_divided_by_the_second_moment() -> None:
    parameters = np.ones(6, np.float32)
    first, second = np.zeros(6, np.float32), np.full(6, 1e6, np.float32)
    AdamWUpdate(SEGMENTS, Clipping(), 0.9, 0.999, 1e-8)(
        parameters, np.zeros(6, np.float32), first, second, 10, 0.5
    )
    assert_allclose(parameters, [0.95, 0.95, 1, 1, 1, 1], rtol=1e-6)


def test_gradient_is_clipped_before_it_is_used() -> None:
    found, expected = (np.zeros((3, 6), np.float32) for _ in range(2))
    gradient = np.array([3, -4, 1, 0, 0, 8], np.float32)
    as_clipped = np.array([2 / 3, -2 / 3, 1 / 3, 0, 0, 8], np.float32)
    arguments = 0.9, 0.999, 1e-8
    AdamWUpdate(SEGMENTS, Clipping(norm=1, value=2), *arguments)(
        found[0], gradient, *found[1:], 1, 0.1
    )
    AdamWUpdate(SEGMENTS, Clipping(), *arguments)(expected[0], as_clipped, *expected[1:], 1, 0.1)
    assert_allclose(found, expected, rtol=1e-5)


def test_statistics_move_by_their_own_momentum_alone() -> None:
    parameters, gradient = np.full(6, 8, np.float32), np.full(6, 4, np.float32)
    moments = np.zeros((2, 6), np.float32)
    AdamWUpdate(SEGMENTS, Clipping(), 0.9, 0.999, 1e-8)(parameters, gradient, *moments, 1, 0.0)
    assert_array_equal(parameters, [8, 8, 8, 8, 8, 7])
    assert_array_equal(moments[:, 5], 0)
