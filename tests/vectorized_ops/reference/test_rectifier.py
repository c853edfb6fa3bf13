from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.rectifier import Rectifier, relu_backward, relu_forward


def test_negative_values_become_zero_and_what_is_not_a_number_stays() -> None:
    values = np.array([-2, 0, 3, np.nan, np.inf, -np.inf], np.float32)
    relu_forward(values, values)
    assert_array_equal(values, [0, 0, 3, np.nan, np.inf, 0])


def test_gradient_passes_where_the_output_is_not_zero() -> None:
    gradient = np.array([1, 2, 3, 4], np.float32)
    outputs = np.array([0, 5, np.nan, np.inf], np.float32)
    relu_backward(gradient, outputs, gradient)
    assert_array_equal(gradient, [0, 2, 3, 4])


INPUTS = np.array([-4, 0, 2, 6, 9, np.nan, np.inf, -np.inf], np.float32)


@pytest.mark.parametrize(
    ("options", "outputs", "passed"),
    [
        ({}, [0, 0, 2, 6, 9, np.nan, np.inf, 0], [0, 0, 1, 1, 1, 1, 1, 0]),
        ({"ceiling": 6.0}, [0, 0, 2, 6, 6, np.nan, 6, 0], [0, 0, 1, 0, 0, 1, 0, 0]),
        (
            {"slope": 0.5},
            [-2, 0, 2, 6, 9, np.nan, np.inf, -np.inf],
            [0.5, 0.5, 1, 1, 1, 1, 1, 0.5],
        ),
    ],
    ids=["plain", "clipped", "leaky"],
)
def test_rectifiers_bend_at_zero_and_at_the_ceiling(
    options: dict[str, float], outputs: list[float], passed: list[float]
) -> None:
    operation, out, back = Rectifier(**options), np.empty(8, np.float32), np.ones(8, np.float32)
    operation.forward(INPUTS, out)
    assert_array_equal(out, outputs)
    operation.backward(np.full(8, 3, np.float32), out, back, add=True)
    assert_array_equal(back, 1 + 3 * np.array(passed))


def test_gradient_of_a_rectifier_equals_finite_differences(
    gradients_agree: Callable[..., None],
) -> None:
    values, gradient = np.array([-3.0, -0.5, 0.5, 1.5, 2.5]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    operation, out, back = Rectifier(slope=0.1, ceiling=2.0), np.empty(5), np.empty(5)

    def forward() -> np.ndarray:
        operation.forward(values, out)
        return out

    operation.backward(gradient, forward(), back)
    gradients_agree(forward, gradient, [(values, back)])


@pytest.mark.parametrize(("slope", "ceiling"), [(-0.1, 6.0), (0.1, 0.0), (np.nan, 6.0)])
def test_rectifier_whose_outputs_do_not_tell_their_inputs_is_refused(
    slope: float, ceiling: float
) -> None:
    with pytest.raises(OperationError, match=f"slope {slope} and ceiling {ceiling} .* slope >= 0"):
        Rectifier(slope, ceiling)


@settings(max_examples=15)
@given(data=st.data())
def test_definitions_keep_their_own_contracts(
    data: Any, relu_contract: Any, rectifier_contract: Any
) -> None:
    relu_contract("reference", data.draw)
    rectifier_contract("reference", data.draw)
