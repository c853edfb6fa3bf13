from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.sgd import SGDUpdate

RATES = [1.0, 2.0, 1.0]
DECAYS = [0.01, 0.0, 0.01]
SEGMENTS = ParameterGroups(
    np.array([0, 2, 5, 6], np.int64),
    np.array(RATES, np.float32),
    np.array(DECAYS, np.float32),
    np.array([np.nan, np.nan, 0.25], np.float32),
)
STRETCH = [0, 0, 1, 1, 1, 2]
"""The stretch of each value."""


@pytest.mark.parametrize("nesterov", [False, True])
def test_steps_follow_caffe_element_by_element(nesterov: bool) -> None:
    rng = np.random.default_rng(4)
    parameters, velocity = (rng.standard_normal(6).astype(np.float32) for _ in range(2))
    w, v = parameters.tolist(), velocity.tolist()
    update = SGDUpdate(SEGMENTS, Clipping(), 0.9, nesterov)
    for learning_rate in (0.1, 0.1, 0.05):
        gradient = rng.standard_normal(6).astype(np.float32)
        update(parameters, gradient, velocity, learning_rate)
        for i, s in enumerate(STRETCH[:5]):
            before = v[i]
            decayed = float(gradient[i]) + DECAYS[s] * w[i]
            v[i] = 0.9 * before + learning_rate * RATES[s] * decayed
            w[i] -= 1.9 * v[i] - 0.9 * before if nesterov else v[i]
        w[5] -= 0.25 * float(gradient[5])
    assert_allclose(parameters, w, rtol=1e-5, atol=1e-6)
    assert_allclose(velocity, v, rtol=1e-5, atol=1e-6)


def test_l1_pulls_all_but_zeros_by_the_same_amount() -> None:
    parameters = np.array([4, -4, 0, 1, -1, 1], np.float32)
    gradient, velocity = np.zeros(6, np.float32), np.zeros(6, np.float32)
    groups = replace(SEGMENTS, decays=np.array([0.5, 0.25, 1], np.float32))
    SGDUpdate(groups, Clipping(), 0.9, False, l1=True)(parameters, gradient, velocity, 0.5)
    assert_array_equal(parameters, [3.75, -3.75, 0, 0.75, -0.75, 1])


def test_statistics_move_by_their_own_momentum_alone() -> None:
    parameters, gradient = np.full(6, 8, np.float32), np.full(6, 4, np.float32)
    velocity = np.zeros(6, np.float32)
    SGDUpdate(SEGMENTS, Clipping(norm=1e-3, value=1e-3), 0.9, True)(
        parameters, gradient, velocity, 0.0
    )
    assert_array_equal(parameters, [8, 8, 8, 8, 8, 7])
    assert velocity[5] == 0


def test_gradient_is_clipped_before_it_is_used() -> None:
    clipping = Clipping(norm=1, value=2)
    gradient = np.array([3, -4, 1, 0, 0, 0], np.float32)
    as_clipped = np.array([2, -2, 1, 0, 0, 0], np.float32) / 3
    found, expected = (np.zeros(6, np.float32) for _ in range(2))
    SGDUpdate(SEGMENTS, clipping, 0.0, False)(found, gradient, np.zeros_like(found), 0.5)
    SGDUpdate(SEGMENTS, Clipping(), 0.0, False)(expected, as_clipped, np.zeros_like(found), 0.5)
    assert_allclose(found, expected, rtol=1e-6)


def test_vectors_of_another_length_are_refused() -> None:
    update = SGDUpdate(SEGMENTS, Clipping(), 0.9, False)
    vector = np.zeros(6, np.float32)
    with pytest.raises(OperationError, match=r"expected contiguous float32 \(6,\)"):
        update(vector, np.zeros(7, np.float32), vector, 0.1)
