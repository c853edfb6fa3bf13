from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from vectorized_ops.numba.clipping import GradientScale, SquaredNorms, within
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.clipping import clipped, squared_norms


def ordinary(bounds: list[int]) -> ParameterGroups:
    numbers = np.full(len(bounds) - 1, np.nan, np.float32)
    return ParameterGroups(np.array(bounds, np.int64), numbers, numbers, numbers)


@given(
    st.lists(st.integers(1, 9000), min_size=1, max_size=5),
    st.sampled_from([0.5, math.inf]),
)
@settings(max_examples=30)
def test_squared_norms_are_those_of_the_reference(lengths: list[int], bound: float) -> None:
    groups = ordinary(np.cumsum([0, *lengths]).tolist())
    vector = np.random.default_rng(groups.size).standard_normal(groups.size, np.float32)
    found = np.full(len(lengths), np.nan)
    SquaredNorms(groups).of(vector, bound, found)
    within_bound = np.clip(vector, -np.float32(bound), np.float32(bound))
    assert_allclose(found, squared_norms(within_bound, groups), rtol=1e-13)


def test_neither_another_run_nor_threads_change_a_bit(
    same_bits: Callable[..., None],
) -> None:
    def compute() -> list[np.ndarray]:
        groups = ordinary([0, 5, 30_000, 100_001])
        vector = np.random.default_rng(1).standard_normal(groups.size, np.float32)
        out = np.zeros(3)
        SquaredNorms(groups).of(vector, 2.0, out)
        return [out]

    same_bits(compute)


def test_scale_is_that_of_the_reference_and_leaves_statistics_out() -> None:
    groups = ordinary([0, 100, 200, 300])
    statistics = np.array([np.nan, 0.1, np.nan], np.float32)
    groups = ParameterGroups(groups.bounds, groups.rates, groups.decays, statistics)
    gradient = np.random.default_rng(2).standard_normal(300, np.float32)
    gradient[150] = 1e20
    clipping = Clipping(norm=2.5, value=1.5)
    found = GradientScale(groups, clipping).of(gradient)
    expected = clipped(gradient, groups, clipping)
    assert_allclose(found * np.clip(gradient[:100], -1.5, 1.5), expected[:100], rtol=1e-6)


@pytest.mark.parametrize("norm", [10.0, 11.0, math.inf])
def test_scale_of_a_gradient_within_the_norm_is_1(norm: float) -> None:
    groups = ordinary([0, 100])
    assert GradientScale(groups, Clipping(norm=norm)).of(np.ones(100, np.float32)) == 1


def test_gradient_that_holds_no_number_is_not_scaled() -> None:
    gradient = np.full(100, np.nan, np.float32)
    assert GradientScale(ordinary([0, 100]), Clipping(norm=1)).of(gradient) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 2), (-3, -2), (2, 2), (-1.5, -1.5), (np.inf, 2), (-np.inf, -2), (np.nan, np.nan)],
)
def test_values_are_brought_into_their_bound_and_nan_stays(value: float, expected: float) -> None:
    np.testing.assert_equal(float(within(np.float32(value), np.float32(2))), expected)
