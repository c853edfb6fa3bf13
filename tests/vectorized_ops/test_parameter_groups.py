from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.errors import OperationError
from vectorized_ops.parameter_groups import ParameterGroups


def groups(bounds: list[int], rates: int = 2) -> ParameterGroups:
    numbers = np.ones(rates, np.float32)
    return ParameterGroups(np.array(bounds, np.int64), numbers, numbers, numbers * np.nan)


def test_size_is_where_the_last_stretch_ends() -> None:
    assert groups([0, 16, 40]).size == 40


def test_stretches_without_a_statistic_s_momentum_are_ordinary() -> None:
    ones = np.ones(3, np.float32)
    statistics = np.array([np.nan, 0, 0.1], np.float32)
    found = ParameterGroups(np.array([0, 1, 2, 3], np.int64), ones, ones, statistics)
    assert found.ordinary.tolist() == [True, False, False]


@pytest.mark.parametrize("bounds", [[], [16, 32, 48], [0, 32, 16], [0, 16, 16]])
def test_bounds_that_do_not_rise_from_0_are_refused(bounds: list[int]) -> None:
    with pytest.raises(OperationError, match="expected int64 numbers that rise from 0"):
        groups(bounds)


def test_bounds_of_another_type_are_refused() -> None:
    ones = np.ones(1, np.float32)
    with pytest.raises(OperationError, match=r"\[0, 16\] \(int32\)"):
        ParameterGroups(np.array([0, 16], np.int32), ones, ones, ones)  # type: ignore[arg-type]


def test_numbers_for_more_stretches_than_there_are_are_refused() -> None:
    with pytest.raises(OperationError, match=r"rates of parameter groups .*\(3,\).*float32 \(2,\)"):
        groups([0, 16, 32], rates=3)


@pytest.mark.parametrize(
    "vector",
    [np.zeros(31, np.float32), np.zeros(32), np.zeros(64, np.float32)[::2]],
    ids=["length", "type", "stride"],
)
def test_vectors_that_the_segments_do_not_fit_are_refused(vector: np.ndarray) -> None:
    right = np.zeros(32, np.float32)
    groups([0, 16, 32]).check(right, right)
    with pytest.raises(OperationError, match=r"expected contiguous float32 \(32,\)"):
        groups([0, 16, 32]).check(right, vector)
