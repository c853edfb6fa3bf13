from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from vectorized_ops.reference.activation import relu_backward, relu_forward


def test_negative_values_become_zero_and_what_is_not_a_number_stays() -> None:
    values = np.array([-2, 0, 3, np.nan, np.inf, -np.inf], np.float32)
    relu_forward(values, values)
    assert_array_equal(values, [0, 0, 3, np.nan, np.inf, 0])


def test_gradient_passes_where_the_output_is_not_zero() -> None:
    gradient = np.array([1, 2, 3, 4], np.float32)
    outputs = np.array([0, 5, np.nan, np.inf], np.float32)
    relu_backward(gradient, outputs, gradient)
    assert_array_equal(gradient, [0, 2, 3, 4])
