from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import zeros_images_last
from vectorized_ops.numba.activation import Activation
from vectorized_ops.numba.kernels.arithmetic.activation import ACTIVATIONS
from vectorized_ops.reference import activation as reference

SHAPE = (16, 100)


def values_and_slopes(function: str, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, out, above, back = (zeros_images_last(SHAPE) for _ in range(4))
    values[...], above[...] = inputs, 1
    operation = Activation(function)
    operation.forward(values, out)
    operation.backward(above, values, back)
    return out, back


def test_functions_are_those_of_the_reference_in_its_order() -> None:
    assert list(ACTIVATIONS) == list(reference.FUNCTIONS)


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_values_and_slopes_are_good_to_some_units_in_the_last_place(function: str) -> None:
    inputs = np.linspace(-9, 9, math.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    exact = inputs.astype(np.float64)
    values, slopes = values_and_slopes(function, inputs)
    defined = reference.FUNCTIONS[function]
    assert_allclose(values, defined.values(exact), rtol=3e-7, atol=2e-7)
    assert_allclose(slopes, defined.slopes(exact), rtol=3e-7, atol=3e-7)


@pytest.mark.parametrize("function", ["sigmoid", "tanh"])
def test_small_values_keep_their_relative_precision(function: str) -> None:
    inputs = np.linspace(-60 if function == "sigmoid" else -1e-3, -1e-6, math.prod(SHAPE))
    values, _ = values_and_slopes(function, inputs.astype(np.float32).reshape(SHAPE))
    exact = inputs.astype(np.float32).astype(np.float64).reshape(SHAPE)
    assert_allclose(values, reference.FUNCTIONS[function].values(exact), rtol=1e-6)


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_a_nan_stays_and_bounded_functions_reach_their_bounds(function: str) -> None:
    values, slopes = values_and_slopes(function, np.resize([np.nan, np.inf, -np.inf], SHAPE))
    number = np.resize([0, 1, 2], SHAPE)
    assert np.isnan(values[number == 0]).all()
    if function in ("hard_sigmoid", "sigmoid", "tanh"):
        assert_array_equal(values[number == 1], 1)
        assert_array_equal(values[number == 2], -1 if function == "tanh" else 0)
        assert_array_equal(slopes[number > 0], 0)


@pytest.mark.parametrize(
    ("function", "inputs", "slopes"),
    [
        ("hard_sigmoid", [-3, 3], [0, 0]),
        ("hard_swish", [-3, 3], [0, 1]),
        ("gelu", [-1e18, 1e18], [0, 1]),
        ("gelu_tanh", [-1e18, 1e18], [0, 1]),
    ],
)
def test_slopes_at_corners_and_of_huge_values_are_those_of_pytorch(
    function: str, inputs: list[float], slopes: list[float]
) -> None:
    _, found = values_and_slopes(function, np.resize(inputs, SHAPE))
    assert_array_equal(found, np.resize(slopes, SHAPE))
    with np.errstate(over="ignore", under="ignore"):
        defined = reference.FUNCTIONS[function].slopes(np.array(inputs, np.float32))
    assert_array_equal(defined, slopes)
