from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import are_finite, copy_values, rounded, widened
from vectorized_ops.layout import STORED

LARGEST = 0x7F7F


def float32(*bits: int) -> np.ndarray:
    return np.array(bits, np.uint32).view(np.float32)


def test_all_values_stay_what_they_are() -> None:
    every = np.arange(2**16, dtype=np.uint16)
    numbers = ~np.isnan(widened(every))
    assert numbers.sum() == 2**16 - 2 * 127
    assert_array_equal(rounded(widened(every))[numbers], every[numbers])
    assert_array_equal(rounded(widened(every))[~numbers], every[~numbers] | 0x40)


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0x3F807FFF, 0x3F80),
        (0x3F808000, 0x3F80),
        (0x3F808001, 0x3F81),
        (0x3F818000, 0x3F82),
        (0xBF818000, 0xBF82),
        (0x00008000, 0),
        (0x00018000, 2),
        (0x7F7F7FFF, LARGEST),
        (0x7F7F8000, 0x7F80),
        (0xFF7FFFFF, 0xFF80),
        (0x7F800000, 0x7F80),
        (0x7F800001, 0x7FC0),
        (0xFFFFFFFF, 0xFFFF),
    ],
)
def test_values_are_rounded_to_nearest_even(bits: int, expected: int) -> None:
    (found,) = rounded(float32(bits))
    assert found == expected


def test_float32_is_not_widened() -> None:
    values = float32(0x3F807FFF)
    assert widened(values) is values


@pytest.mark.parametrize("to", [np.float32, STORED])
@pytest.mark.parametrize("kept", [np.float32, STORED])
def test_values_are_copied_to_an_array_of_either_type(kept: object, to: object) -> None:
    values = np.array([[1, -2.5], [1 + 2**-8, 1e30]], np.float32)
    given = rounded(values) if kept is STORED else values
    out = np.zeros((3, 2), to)[1:]
    copy_values(given, out)
    expected = widened(given)
    assert_array_equal(widened(out), widened(rounded(expected)) if to is STORED else expected)


@pytest.mark.parametrize("kept", [np.float32, STORED])
def test_what_is_not_finite_is_found(kept: object) -> None:
    for strange, finite in ((np.nan, False), (-np.inf, False), (3e38, True), (0, True)):
        values = np.array([1, strange, 2], np.float32)
        assert are_finite(rounded(values) if kept is STORED else values) is finite
