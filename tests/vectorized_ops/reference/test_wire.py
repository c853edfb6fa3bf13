from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.reference.wire import (
    BLOCK,
    LEAST_SCALE,
    LEVELS,
    add_bfloat16,
    add_float4,
    add_int8,
    encode_bfloat16,
    encode_float4,
    encode_int8,
)

Through: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]

ANY_FLOATS = st.lists(st.floats(width=32, allow_subnormal=True), max_size=40)
FINITE = st.lists(st.floats(-(2.0**99), 2.0**99, width=32), max_size=2 * BLOCK + 9)


def through_bfloat16(values: np.ndarray) -> np.ndarray:
    codes, total = np.zeros(values.size, np.uint16), np.zeros(values.size, np.float32)
    encode_bfloat16(values, codes)
    add_bfloat16(codes, total)
    return total


def through_int8(values: np.ndarray, residual: np.ndarray) -> np.ndarray:
    scales, codes = np.zeros(-(-values.size // BLOCK), np.float32), np.zeros(values.size, np.int8)
    total = np.zeros(values.size, np.float32)
    encode_int8(values, residual, scales, codes)
    add_int8(scales, codes, total)
    return total


def through_float4(values: np.ndarray, residual: np.ndarray) -> np.ndarray:
    scales = np.zeros(-(-values.size // BLOCK), np.float32)
    codes, total = np.full(-(-values.size // 2), 0xA5, np.uint8), np.zeros(values.size, np.float32)
    encode_float4(values, residual, scales, codes)
    add_float4(scales, codes, total)
    return total


@given(ANY_FLOATS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_bfloat16_is_that_of_pytorch(values: list[float]) -> None:
    given_ = np.array(values, np.float32)
    expected = torch.from_numpy(given_).to(torch.bfloat16).float().numpy()
    found = through_bfloat16(given_)
    assert np.array_equal(np.isnan(found), np.isnan(given_))
    assert np.array_equal(found, np.zeros(given_.size, np.float32) + expected, equal_nan=True)


@settings(max_examples=60)
@given(FINITE)
def test_int8_and_its_residual_are_the_values_within_half_a_step(values: list[float]) -> None:
    given_, residual = np.array(values, np.float32), np.zeros(len(values), np.float32)
    found = through_int8(given_, residual)
    for begin in range(0, given_.size, BLOCK):
        block = slice(begin, begin + BLOCK)
        peak = np.abs(given_[block]).max()
        if peak / np.float32(LEVELS) >= np.finfo(np.float32).tiny:
            assert np.all(np.abs(residual[block]) <= peak / LEVELS * 0.5001)
        both = found[block].astype(np.float64) + residual[block]
        assert np.all(np.abs(both - given_[block]) <= 2.0**-22 * peak)


def test_int8_worked_out_by_hand() -> None:
    values, residual = np.array([127.0, 3.4, -2.5, 0.0], np.float32), np.zeros(4, np.float32)
    residual[1] = 1
    assert through_int8(values, residual).tolist() == [127.0, 4.0, -2.0, 0.0]
    np.testing.assert_allclose(residual, [0.0, 0.4, -0.5, 0.0], atol=1e-6)


@settings(max_examples=60)
@given(FINITE)
def test_float4_and_its_residual_are_the_values_within_a_third(values: list[float]) -> None:
    given_, residual = np.array(values, np.float32), np.zeros(len(values), np.float32)
    found = through_float4(given_, residual)
    for begin in range(0, given_.size, BLOCK):
        block = slice(begin, begin + BLOCK)
        peak = np.abs(given_[block]).max()
        if peak >= LEAST_SCALE:
            largest = np.maximum(np.abs(given_[block]) / 3, peak / 128)
            assert np.all(np.abs(residual[block]) <= largest * 1.0001)
        both = found[block].astype(np.float64) + residual[block]
        assert np.all(np.abs(both - given_[block]) <= 2.0**-22 * peak)


def test_float4_worked_out_by_hand() -> None:
    values = np.array([64.0, -33.0, 48.0, 48.5, -0.5, 0.5, 0.6, 1.5, 1.6], np.float32)
    residual = np.zeros(9, np.float32)
    expected = [64.0, -32.0, 32.0, 64.0, 0.0, 0.0, 1.0, 1.0, 2.0]
    assert through_float4(values, residual).tolist() == expected
    np.testing.assert_allclose(residual, values - expected, atol=1e-6)
    scale, codes = np.zeros(1, np.float32), np.zeros(5, np.uint8)
    encode_float4(values, np.zeros(9, np.float32), scale, codes)
    assert scale == 64
    assert codes.tolist() == [7 | 0 << 4, 8 | 6 | 1 << 4, 6 | 1 << 4, 7 | 2 << 4, 8]


@pytest.mark.parametrize("through", [through_int8, through_float4])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_block_with_what_is_not_finite_is_not_a_number(through: Through, bad: float) -> None:
    values, residual = np.ones(2 * BLOCK, np.float32), np.zeros(2 * BLOCK, np.float32)
    values[3] = bad
    found = through(values, residual)
    assert np.isnan(found[:BLOCK]).all()
    assert np.isfinite(found[BLOCK:]).all()
    assert not residual[:BLOCK].any()


@pytest.mark.parametrize(("through", "value"), [(through_int8, 1e-37), (through_float4, 1e-39)])
def test_values_too_small_for_a_scale_are_kept_until_they_add_up(
    through: Through, value: float
) -> None:
    values, residual = np.full(5, value, np.float32), np.zeros(5, np.float32)
    assert not through(values, residual).any()
    np.testing.assert_array_equal(residual, values)
    sent = sum(through(values, residual) for _ in range(99))
    np.testing.assert_allclose(sent + residual, 100 * value, rtol=1e-3)
