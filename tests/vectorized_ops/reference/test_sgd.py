from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.reference.sgd import sgd_update


@pytest.mark.parametrize("nesterov", [False, True])
def test_steps_follow_caffe_element_by_element(nesterov: bool) -> None:
    rng = np.random.default_rng(4)
    parameters, velocity = (rng.standard_normal(6).astype(np.float32) for _ in range(2))
    w, v = parameters.tolist(), velocity.tolist()
    for _ in range(3):
        gradient = rng.standard_normal(6).astype(np.float32)
        sgd_update(parameters, gradient, velocity, 0.1, 0.9, 0.01, nesterov)
        for i in range(6):
            before = v[i]
            v[i] = 0.9 * before + 0.1 * (float(gradient[i]) + 0.01 * w[i])
            w[i] -= 1.9 * v[i] - 0.9 * before if nesterov else v[i]
    assert_allclose(parameters, w, rtol=1e-5, atol=1e-6)
    assert_allclose(velocity, v, rtol=1e-5, atol=1e-6)
