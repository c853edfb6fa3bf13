from __future__ import annotations

import numpy as np

from vectorized_ops.reference.top_k import add_largest, candidates_for, encode_largest


def encoded(values: list[float], residual: list[float], count: int) -> tuple[list, list, list]:
    places, chosen = np.zeros(count, np.int32), np.zeros(count, np.float32)
    rest = np.array(residual, np.float32)
    scratch = np.zeros(candidates_for(count), np.int32)
    encode_largest(np.array(values, np.float32), rest, places, chosen, scratch)
    return places.tolist(), chosen.tolist(), rest.tolist()


def test_largest_magnitudes_go_and_the_others_are_kept() -> None:
    found = encoded([1, -5, 2, 4], [0, 1, 4, 0], 2)
    assert found == ([1, 2], [-4, 6], [1, 0, 0, 4])


def test_of_equal_magnitudes_the_first_are_taken() -> None:
    assert encoded([2, -2, 2, 2, 3], [0] * 5, 3) == ([0, 1, 4], [2, -2, 3], [0, 0, 2, 2, 0])
    assert encoded([0, 0, 0], [0] * 3, 2)[0] == [0, 1]


def test_what_is_not_finite_goes_first() -> None:
    places, chosen, rest = encoded([1, np.inf, 3e38, np.nan], [0] * 4, 2)
    assert places == [1, 3]
    assert np.isinf(chosen[0]) and np.isnan(chosen[1])
    assert np.isfinite(rest).all()


def test_chosen_values_are_added_where_they_were() -> None:
    total = np.ones(5, np.float32)
    add_largest(np.array([1, 4], np.int32), np.array([2, -1], np.float32), total)
    assert total.tolist() == [1, 3, 1, 1, 0]
