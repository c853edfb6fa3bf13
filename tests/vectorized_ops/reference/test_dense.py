from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.reference.dense import Dense


def test_outputs_are_rows_of_weights_times_inputs_plus_bias() -> None:
    out = np.empty((1, 2), np.float32)
    weights = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    inputs, bias = np.array([[1, 10, 100]], np.float32), np.array([0.5, -1], np.float32)
    Dense(1, 3, 2).forward(inputs, weights, bias, out)
    assert_array_equal(out, [[321.5, 653]])


def test_gradients_equal_finite_differences(differences: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(2)
    inputs, weights, bias, gradient = map(rng.standard_normal, [(3, 5), (4, 5), (4,), (3, 4)])
    operation, out = Dense(3, 5, 4), np.empty((3, 4))

    def loss() -> float:
        operation.forward(inputs, weights, bias, out)
        return float((out * gradient).sum())

    inputs_out, weights_out, bias_out = map(np.empty_like, (inputs, weights, bias))
    operation.backward_data(gradient, weights, inputs_out)
    operation.backward_weights(inputs, gradient, weights_out, bias_out)
    for values, found in ((inputs, inputs_out), (weights, weights_out), (bias, bias_out)):
        assert_allclose(found, differences(loss, values), rtol=1e-8, atol=1e-8)
