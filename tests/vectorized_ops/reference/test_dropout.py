from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.reference.dropout import Dropout, drop_below, hashed, mixed_key

WIDTH = 256
STANDARD_ERROR = 0.5 / WIDTH
"""Of the mean of WIDTH x WIDTH fair decisions."""


def dropped(rate: float, key: int) -> np.ndarray:
    out = np.empty((WIDTH, WIDTH), np.float32)
    Dropout(rate).forward(np.ones((WIDTH, WIDTH), np.float32), out, key)
    return out == 0


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_share_of_dropped_values_is_the_rate(rate: float) -> None:
    shares = np.array([dropped(rate, key).mean() for key in range(8)])
    assert_allclose(shares, rate, rtol=0, atol=4 * STANDARD_ERROR)
    assert np.abs(shares - rate).max() > 0


@pytest.mark.parametrize("distance", [1, 2, 3, 16, WIDTH, WIDTH + 1])
def test_neighbouring_values_are_dropped_independently(distance: int) -> None:
    decisions = dropped(0.5, key=3).ravel()
    agreement = (decisions[distance:] == decisions[:-distance]).mean()
    assert agreement == pytest.approx(0.5, abs=4 * STANDARD_ERROR)


@pytest.mark.parametrize("key", [0, 6, 8, 2**31, 2**32 + 7, 2**63])
def test_other_keys_make_independent_decisions(key: int) -> None:
    agreement = (dropped(0.5, key) == dropped(0.5, 7)).mean()
    assert agreement == pytest.approx(0.5, abs=4 * STANDARD_ERROR)


def test_kept_values_are_scaled_up_and_the_same_key_keeps_the_same() -> None:
    values = np.arange(1, 101, dtype=np.float32).reshape(10, 10)
    out, again, back = (np.empty_like(values) for _ in range(3))
    operation = Dropout(0.75)
    operation.forward(values, out, 5)
    operation.forward(values, again, 5)
    operation.backward(values, back, 5)
    assert_array_equal(out[out != 0], 4 * values[out != 0])
    assert 0 < (out != 0).sum() < 50
    assert_array_equal(again, out)
    assert_array_equal(back, out)


def test_rate_zero_keeps_everything() -> None:
    values = np.arange(1, 101, dtype=np.float32).reshape(10, 10)
    out = np.empty_like(values)
    Dropout(0.0).forward(values, out, 9)
    assert_array_equal(out, values)


def test_values_are_numbered_in_the_logical_order_of_images() -> None:
    images = np.ones((3, 4, 5, 6), np.float32)
    out, vector = np.empty_like(images), np.empty((1, images.size), np.float32)
    Dropout(0.5).forward(images, out, 1)
    Dropout(0.5).forward(np.ones_like(vector), vector, 1)
    assert_array_equal(out.ravel(), vector.ravel())


def test_part_of_an_array_is_dropped_as_in_the_whole() -> None:
    values = np.ones((7, 2, 3, 5), np.float32)
    whole, parts, back = np.empty_like(values), np.empty_like(values), np.empty_like(values)
    operation = Dropout(0.5)
    operation.forward(values, whole, 9)
    for part in (slice(0, 3), slice(3, 7)):
        operation.forward(values[part], parts[part], 9, part.start)
        operation.backward(values[part], back[part], 9, first_image=part.start)
    assert_array_equal(parts, whole)
    assert_array_equal(back, whole)


def test_hash_gives_every_number_another_one() -> None:
    assert len(np.unique(hashed(np.arange(1 << 16, dtype=np.uint32)))) == 1 << 16
    # Computed by hand from the formula, in integers without limit.
    x = 12345
    x ^= x >> 16
    x = x * 0x21F0AAAD % 2**32
    x ^= x >> 15
    x = x * 0xD35A2D97 % 2**32
    assert hashed(np.array([12345], np.uint32))[0] == x ^ (x >> 15)


@pytest.mark.parametrize("key", [0, 1, 2**32 - 1, 2**32, 0x9E3779B9 << 32, 2**64 - 1])
def test_key_is_mixed_by_the_same_hash(key: int) -> None:
    low, high = np.array([key % 2**32], np.uint32), np.array([key >> 32], np.uint32)
    assert mixed_key(key) == hashed(low ^ hashed(high ^ np.uint32(0x9E3779B9)))[0]


def test_nearly_everything_may_be_dropped() -> None:
    assert drop_below(1 - 2**-40) == 2**32 - 1
    assert mixed_key(2**64 - 1) != mixed_key(2**32 - 1)


@settings(max_examples=15)
@given(data=st.data())
def test_definition_keeps_its_own_contract(data: Any, dropout_contract: Any) -> None:
    dropout_contract("reference", data.draw)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(OperationError, match=f"rate {rate} .* 0 <= rate < 1"):
        Dropout(rate)


@pytest.mark.parametrize("key", [-1, 2**64])
def test_impossible_keys_are_refused(key: int) -> None:
    values = np.ones((1, 1), np.float32)
    with pytest.raises(OperationError, match=f"key {key}: expected 0 <= key < 2\\^64"):
        Dropout(0.5).forward(values, values, key)


def test_images_are_dropped_as_a_whole_by_their_number_in_the_batch() -> None:
    values = np.random.default_rng(0).normal(size=(64, 2, 3, 4)).astype(np.float32)
    out, last = np.empty_like(values), np.empty_like(values[40:])
    operation = Dropout(0.25, per_image=True)
    operation.forward(values, out, key=3)
    kept = out.any(axis=(1, 2, 3))
    assert 0 < kept.sum() < 64
    assert_array_equal(out, np.where(kept[:, None, None, None], values * np.float32(4 / 3), 0))
    operation.forward(values[40:], last, key=3, first_image=40)
    assert_array_equal(last, out[40:])
