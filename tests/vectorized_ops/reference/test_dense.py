from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.reference.dense import Dense


def test_outputs_are_rows_of_weights_times_inputs_plus_bias() -> None:
    out = np.empty((1, 2), np.float32)
    weights = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    inputs, bias = np.array([[1, 10, 100]], np.float32), np.array([0.5, -1], np.float32)
    Dense(1, 3, 2).forward(inputs, weights, bias, out)
    assert_array_equal(out, [[321.5, 653]])
    Dense(1, 3, 2).forward(-inputs, -weights, None, out)
    assert_array_equal(out, [[321, 654]])
    Dense(1, 3, 2).forward(inputs, weights * [[1], [-1]], None, out, relu=True)
    assert_array_equal(out, [[321, 0]])


def test_gradients_equal_finite_differences(gradients_agree: Callable[..., None]) -> None:
    rng = np.random.default_rng(2)
    inputs, weights, bias, gradient = map(rng.standard_normal, [(3, 5), (4, 5), (4,), (3, 4)])
    operation, out = Dense(3, 5, 4), np.empty((3, 4))

    def forward() -> np.ndarray:
        operation.forward(inputs, weights, bias, out)
        return out

    inputs_out, weights_out, bias_out = map(np.empty_like, (inputs, weights, bias))
    operation.backward_data(gradient, weights, inputs_out)
    operation.backward_weights(inputs, gradient, weights_out, bias_out)
    gradients_agree(
        forward, gradient, [(inputs, inputs_out), (weights, weights_out), (bias, bias_out)]
    )


@settings(max_examples=15)
@given(data=st.data())
def test_definition_keeps_its_own_contract(data: Any, dense_contract: Any) -> None:
    dense_contract("reference", data.draw)
