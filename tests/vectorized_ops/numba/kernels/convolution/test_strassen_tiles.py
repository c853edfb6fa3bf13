from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, PAST, RELU
from vectorized_ops.numba.kernels.convolution.strassen_tiles import (
    finished_tile,
    inputs_sums_tile,
    partial_tile,
    weights_sums_tile,
)
from vectorized_ops.numba.moments import SUMS

ROWS, STEPS, IMAGES = 3, 5, 3 * LANES
TILE = ROWS * 2 * LANES
UNTOUCHED = 77

ANYWHERE = 2**44
"""What is only asked for may lie outside of all memory."""


@kernel
def sum_weights(out: Any, weights: Any) -> None:
    weights_sums_tile(out, 1, 2 * LANES, weights, 2, 3 * LANES, 5 * LANES + 1, 7 * LANES)


@kernel
def sum_inputs(out: Any, inputs: Any) -> None:
    inputs_sums_tile(out, 1, 3 * LANES, inputs, 3, 5 * LANES, 2 * LANES + 1, 2)


@kernel
def add_none(partial: Any, weights: Any, inputs: Any) -> None:
    partial_tile(
        3, 2, 0, partial, 7, 0, 0, weights, 2, inputs, 4, IMAGES, 5, inputs, ANYWHERE, ANYWHERE
    )


@kernel
def add_one(partial: Any, weights: Any, inputs: Any) -> None:
    partial_tile(
        3, 2, 1, partial, 7, 7, 0, weights, 2, inputs, 4, IMAGES, 5, inputs, ANYWHERE, ANYWHERE
    )


@kernel
def add_two(partial: Any, weights: Any, inputs: Any) -> None:
    partial_tile(
        3, 2, 2, partial, 7, 7, 7 + TILE, weights, 2, inputs, 4, IMAGES, 5,
        inputs, ANYWHERE, ANYWHERE,
    )  # fmt: skip


@kernel
def finish(
    partial: Any, weights: Any, inputs: Any, steps: int, out: Any, bias: Any, mask: Any, mode: int,
    done: int, wanted: bool, sums: Any, pivots: Any, fresh: bool, bits: Any,
) -> None:  # fmt: skip
    finished_tile(
        3, 2, 2, partial, 7, 7 + TILE, weights, 2, inputs, 4, IMAGES, steps, inputs, ANYWHERE,
        ANYWHERE, out, LANES, 1, bias, mask, 2 * LANES, mode, done, wanted, sums, pivots, fresh,
        bits, LANES,
    )  # fmt: skip


def whole_numbers(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    return out


def product(weights: np.ndarray, inputs: np.ndarray, steps: int) -> np.ndarray:
    """Results of a tile, (rows, 2 vectors), by definition."""
    left = weights[2:][: steps * ROWS].reshape(steps, ROWS)
    right = np.lib.stride_tricks.as_strided(
        inputs[4:], (steps, 2 * LANES), (4 * IMAGES, 4), writeable=False
    )
    return left.T @ right


def test_sums_of_weights_are_those_of_strassen_and_winograd() -> None:
    weights, out = whole_numbers(8 * LANES), np.full(17 * LANES, UNTOUCHED, np.float32)
    sum_weights(out, weights)
    a11, a12, a21, a22 = (weights[at:][:LANES] for at in (2, 3 * LANES, 5 * LANES + 1, 7 * LANES))
    s1 = a21 + a22
    s2 = s1 - a11
    found = out[1 : 1 + 16 * LANES].reshape(8, 2 * LANES)
    assert_array_equal(found[:, :LANES], [a11, a12, a12 - s2, a22, s1, s2, a11 - a21, a21])
    assert (found[:, LANES:] == UNTOUCHED).all()
    assert out[0] == UNTOUCHED


def test_sums_of_inputs_are_those_of_strassen_and_winograd() -> None:
    inputs, out = whole_numbers(12 * LANES), np.full(13 * LANES, UNTOUCHED, np.float32)
    sum_inputs(out, inputs)
    half = 2 * LANES + 1
    b11, b12, b21, b22 = (
        inputs[at:][: 2 * LANES] for at in (3, 5 * LANES, 3 + half, 5 * LANES + half)
    )
    t1 = b12 - b11
    t2 = b22 - t1
    found = out[1 : 1 + 12 * LANES].reshape(4, 3 * LANES)
    assert_array_equal(found[:, : 2 * LANES], [t1, t2, b22 - b12, b21 - t2])
    assert (found[:, 2 * LANES :] == UNTOUCHED).all()


@pytest.mark.parametrize(("starts", "add"), [(0, add_none), (1, add_one), (2, add_two)])
def test_partial_sums_go_on_from_others_and_nothing_else_is_written(starts: int, add: Any) -> None:
    partial, weights = whole_numbers(7 + 2 * TILE + 9), whole_numbers(2 + STEPS * ROWS)
    inputs = whole_numbers(4 + STEPS * IMAGES)
    before = partial.copy()
    add(partial, weights, inputs)
    expected = product(weights, inputs, STEPS).reshape(-1)
    for number in range(starts):
        expected += before[7 + number * TILE :][:TILE]
    assert_array_equal(partial[7 : 7 + TILE], expected)
    assert_array_equal(partial[:7], before[:7])
    assert_array_equal(partial[7 + TILE :], before[7 + TILE :])


@pytest.mark.parametrize("steps", [0, 1, STEPS])
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("mode", [0, RELU, PAST, RELU | PAST, ADD, MASK, ADD | MASK])
def test_finished_sums_are_written_in_all_ways_with_bias_and_moments(
    mode: int, wanted: bool, steps: int
) -> None:
    partial, weights = whole_numbers(7 + 2 * TILE), whole_numbers(2 + STEPS * ROWS)
    inputs, bias = whole_numbers(4 + STEPS * IMAGES), np.array([99, 1, -2, 3], np.float32)
    out, mask = whole_numbers(5 * IMAGES), whole_numbers(1, 5 * IMAGES)[0]
    sums, pivots = whole_numbers(5 * SUMS), np.array([9, 8, 7, 6, 5], np.float32)
    bits = np.full(4 * LANES, -1, np.int32)
    bits[LANES + 2] = 0
    before, sums_before, done = out.copy(), sums.copy(), int(bool(mode & ADD))
    finish(
        partial, weights, inputs, steps, out, bias, mask, mode, done, wanted, sums, pivots, True,
        bits,
    )  # fmt: skip
    starts = partial[7:].reshape(2, ROWS, 2 * LANES).sum(axis=0)
    results = starts + product(weights, inputs, steps) + bias[1:, None]
    targets, old, masks = (
        array[begin : begin + ROWS * IMAGES].reshape(ROWS, IMAGES)[:, : 2 * LANES]
        for array, begin in ((out, LANES), (before, LANES), (mask, 2 * LANES))
    )
    expected = results + old if mode & ADD else results
    if mode & MASK:
        expected = np.where(masks <= 0, 0, expected)
    if mode & RELU:
        expected = np.maximum(expected, 0)
    assert_array_equal(targets[done:], expected[done:])
    assert_array_equal(targets[:done], old[:done])
    beside = out[LANES:][: ROWS * IMAGES].reshape(ROWS, IMAGES)[:, 2 * LANES :]
    assert_array_equal(beside, before[LANES:][: ROWS * IMAGES].reshape(ROWS, -1)[:, 2 * LANES :])
    if not wanted:
        assert_array_equal(sums, sums_before)
        assert_array_equal(pivots, [9, 8, 7, 6, 5])
        return
    counted = slice(1 + done, 1 + ROWS)
    assert_array_equal(pivots[counted], results[done:, 0])
    shifted = (results - results[:, :1]) * (np.arange(2 * LANES) != 2)
    vectors = shifted.reshape(ROWS, 2, LANES)
    gathered = np.concatenate([vectors.sum(axis=1), np.square(vectors).sum(axis=1)], axis=1)
    grown = (sums - sums_before).reshape(5, SUMS)
    assert_array_equal(grown[counted], gathered[done:])
    assert not grown[: 1 + done].any()
    assert not grown[1 + ROWS :].any()
