from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.clipping import clipped, squared_norms

ONES = np.ones(3, np.float32)
LAST_IS_STATISTICS = ParameterGroups(
    np.array([0, 2, 3, 5], np.int64), ONES, ONES, np.array([np.nan, np.nan, 0.1], np.float32)
)
GRADIENT = np.array([3, -4, 12, 100, -100], np.float32)  # the first three have norm 13


def test_squared_norms_are_those_of_each_stretch() -> None:
    assert squared_norms(GRADIENT, LAST_IS_STATISTICS).tolist() == [25, 144, 20_000]


def test_squares_of_the_largest_floats_do_not_overflow() -> None:
    largest = np.full(5, np.finfo(np.float32).max)
    assert np.isfinite(squared_norms(largest, LAST_IS_STATISTICS)).all()


def test_gradient_longer_than_the_norm_is_scaled_to_it_but_statistics_are_not() -> None:
    found = clipped(GRADIENT, LAST_IS_STATISTICS, Clipping(norm=6.5))
    assert_array_equal(found, [1.5, -2, 6, 100, -100])


@pytest.mark.parametrize("norm", [13, 14, np.inf])
def test_gradient_within_the_norm_stays_as_it_is(norm: float) -> None:
    found = clipped(GRADIENT, LAST_IS_STATISTICS, Clipping(norm=norm))
    assert_array_equal(found, GRADIENT)


def test_each_value_is_brought_into_its_bounds_but_statistics_are_not() -> None:
    found = clipped(GRADIENT, LAST_IS_STATISTICS, Clipping(value=3.5))
    assert_array_equal(found, [3, -3.5, 3.5, 100, -100])


def test_values_are_clipped_before_their_norm_is_taken() -> None:
    found = clipped(GRADIENT, LAST_IS_STATISTICS, Clipping(norm=3, value=4))
    assert_allclose(found[:3], np.array([3, -4, 4]) * 3 / np.sqrt(41), rtol=1e-6)


def test_what_is_no_number_stays_visible() -> None:
    gradient = np.array([np.nan, 2, 3, 0, 0], np.float32)
    found = clipped(gradient, LAST_IS_STATISTICS, Clipping(norm=1, value=1.5))
    assert_array_equal(found, [np.nan, 1.5, 1.5, 0, 0])
    gradient[0] = np.inf
    assert np.isnan(clipped(gradient, LAST_IS_STATISTICS, Clipping(norm=1))[0])


def test_the_given_gradient_is_left_alone() -> None:
    gradient = GRADIENT.copy()
    clipped(gradient, LAST_IS_STATISTICS, Clipping(norm=1, value=1))
    assert_array_equal(gradient, GRADIENT)


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_norm_and_values_are_never_past_their_bounds(
    values: list[float], norm: float, value: float
) -> None:
    gradient = np.array([*values, 1, 1], np.float32)
    found = clipped(gradient, LAST_IS_STATISTICS, Clipping(norm, value))[:3].astype(np.float64)
    assert np.linalg.norm(found) <= norm * (1 + 1e-6)
    assert np.abs(found).max() <= value * (1 + 1e-6)
    assert (np.sign(found) * np.sign(gradient[:3]) >= 0).all()
