from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.reference.addition import add


def test_sums_may_take_the_place_of_a_summand_and_be_rectified() -> None:
    left = np.array([[1, -2, np.inf, np.nan]], np.float32)
    right = np.array([[2, 1, -np.inf, 1]], np.float32)
    out = np.empty_like(left)
    add(left, right, out)
    assert_array_equal(out, [[3, -1, np.nan, np.nan]])
    add(left, right, right, relu=True)
    assert_array_equal(right, [[3, 0, np.nan, np.nan]])


@settings(max_examples=15)
@given(data=st.data())
def test_definition_keeps_its_own_contract(data: Any, addition_contract: Any) -> None:
    addition_contract("reference", data.draw)
