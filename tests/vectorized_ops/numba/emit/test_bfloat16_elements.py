"""Elements of arrays of float32 and bfloat16, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.bfloat16 import as_pair, element, store_element, sum_of_pair

VALUES = np.array([0, -0.0, 1, 1 + 2**-8, -3e38, np.inf, np.nan, 257, 1e-3], np.float32)


@kernel
def copy_element(out: Any, to: int, values: Any, index: int) -> None:
    store_element(out, to, element(values, index))


@kernel
def pair(first: Any, second: Any) -> Any:
    return as_pair(first, second)


@kernel
def pair_sum(both: Any) -> Any:
    return sum_of_pair(both)


@pytest.mark.parametrize("to", ["float32", "bfloat16"])
@pytest.mark.parametrize("kept", ["float32", "bfloat16"])
def test_an_element_is_read_and_written_alone(kept: str, to: str) -> None:
    given = VALUES if kept == "float32" else rounded(VALUES)
    before = np.full(len(VALUES) + 3, 7, np.float32)
    for index in range(len(VALUES)):
        out = before.copy() if to == "float32" else rounded(before)
        copy_element(out, index + 2, given, index)
        expected = before.copy()
        expected[index + 2] = widened(given)[index]
        if to == "bfloat16":
            expected = widened(rounded(expected))
        assert widened(out).tobytes() == expected.tobytes()


def test_pairs_have_their_first_element_in_the_lower_half() -> None:
    for first, second in zip(VALUES[2:6], VALUES[1:5], strict=True):
        found = np.float32(pair(first, second))
        assert found.tobytes() == paired(first[None], second[None])[0].tobytes()
    assert np.float32(pair(np.float32(1), np.float32(2))).view(np.uint32) == 0x40003F80


def test_pairs_are_summed_in_float32() -> None:
    first, second = (np.array(each, np.float32) for each in ([1, 256, -3], [2**-20, 3, 3]))
    sums = [pair_sum(both) for both in paired(first, second)]
    assert_array_equal(sums, first + second)
