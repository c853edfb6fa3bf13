from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.activation import (
    FUNCTIONS,
    Activation,
)


@settings(max_examples=15)
@given(data=st.data())
def test_definition_keeps_its_own_contract(data: Any, activation_contract: Any) -> None:
    activation_contract("reference", data.draw)


AT_ONE = {
    "gelu": 0.8413447460685429,
    "gelu_tanh": 0.8411919906082768,
    "hard_sigmoid": 4 / 6,
    "hard_swish": 4 / 6,
    "sigmoid": 0.7310585786300049,
    "silu": 0.7310585786300049,
    "tanh": 0.7615941559557649,
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_at_one_far_above_and_far_below(function: str) -> None:
    values, out = np.array([1.0, 30.0, -30.0, 0.0, np.nan]), np.empty(5)
    Activation(function).forward(values, out)
    bounded = {"hard_sigmoid": (0.5, 0), "sigmoid": (0.5, 0), "tanh": (0, -1)}.get(function)
    top, (middle, low) = (1, bounded) if bounded else (30, (0, 0))
    assert_allclose(out, [AT_ONE[function], top, low, middle, np.nan], rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradient_of_an_activation_equals_finite_differences(
    function: str, gradients_agree: Callable[..., None]
) -> None:
    values, gradient = np.array([-4.0, -2.5, -0.5, 0.5, 2.5, 4.0]), np.arange(1.0, 7.0)
    operation, out, back = Activation(function), np.empty(6), np.empty(6)

    def forward() -> np.ndarray:
        operation.forward(values, out)
        return out

    operation.backward(gradient, values, back)
    gradients_agree(forward, gradient, [(values, back)], step=1e-4)


def test_unknown_function_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperationError, match=r"'swish': expected one of gelu, .*silu"):
        Activation("swish")
