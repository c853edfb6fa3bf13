from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.depthwise_tiles import (
    copied_tile,
    depthwise_tile,
    depthwise_weights_tile,
)
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, RELU

PIXELS, COLUMNS, STRIDE, CHANNELS, IMAGES = 3, 2, 2, 2, 3 * LANES
ROW = CHANNELS * IMAGES
TABLE = np.array([[4, 0, 1, 3, 2, 5, 1], [5, 4, 3, 2, 1, 0, 5], [9] * 7])
"""The places of six inputs, in pixels, and of a weight; a third line that is not read."""

ANYWHERE = 2**44
"""What is only asked for may lie outside of all memory."""

NO_BITS = np.zeros(1, np.int32)


@kernel
def written(
    out: Any, bias: Any, weights: Any, inputs: Any, table: Any, lines: int, mask: Any, mode: int
) -> None:
    depthwise_tile(
        3, 2, 2, out, 7, 500, 3 * LANES, bias, 1, weights, 10, -1, inputs, table, lines, mask, 9,
        400, mode, 2, False, out, 0, out, 0, False, NO_BITS, inputs, ANYWHERE, ANYWHERE, ANYWHERE,
    )  # fmt: skip


@kernel
def added(sums: Any, gradient: Any, inputs: Any, table: Any, group: int, which: int) -> None:
    depthwise_weights_tile(
        3, 2, 2, sums, 9 * LANES, gradient, 5, 300, ANYWHERE, 3 * LANES, inputs, table, 2, 2,
        inputs, ANYWHERE, ANYWHERE, ANYWHERE, group, which,
    )  # fmt: skip


def numbers(rng: np.random.Generator, size: int) -> np.ndarray:
    memory = aligned_zeros((size,))
    memory[:] = rng.integers(-3, 4, size)
    return memory


def table() -> np.ndarray:
    found = TABLE * ROW
    found[:, -1] = TABLE[:, -1]
    return found


@pytest.mark.parametrize("lines", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, RELU, ADD, MASK, ADD | MASK])
def test_results_are_sums_over_lines_and_columns(mode: int, lines: int) -> None:
    rng = np.random.default_rng(0)
    out, mask, inputs, bias, weights = (numbers(rng, n) for n in (2000, 2000, 6 * ROW, 3, 30))
    expected = out.copy()
    for p, c in np.ndindex(PIXELS, CHANNELS):
        total = np.full(IMAGES, bias[1 + c])
        for *places, weight in TABLE[:lines].tolist():
            for s in range(COLUMNS):
                begin = places[p * STRIDE + s] * ROW + c * IMAGES
                total += weights[weight + 10 * c - s] * inputs[begin : begin + IMAGES]
        at, over = 7 + 500 * p + c * IMAGES, 9 + 400 * p + c * IMAGES
        total += expected[at : at + IMAGES] if mode & ADD else 0
        total = np.where(mask[over : over + IMAGES] <= 0, 0, total) if mode & MASK else total
        expected[at : at + IMAGES] = np.maximum(total, 0) if mode & RELU else total
    written(out, bias, weights, inputs, table(), lines, mask, mode)
    assert_array_equal(out, expected)


@pytest.mark.parametrize(("group", "which"), [(1, 0), (2, 0), (2, 1)])
def test_gradients_of_weights_are_added_to_their_vectors(group: int, which: int) -> None:
    rng = np.random.default_rng(1)
    size = CHANNELS * group * 9 * LANES
    sums, gradient, inputs = (numbers(rng, n) for n in (size, 1000, 6 * ROW))
    expected = sums.reshape(CHANNELS, group, 9, LANES).copy()
    for p, k in np.ndindex(PIXELS, CHANNELS):
        above = gradient[5 + 300 * p + k * IMAGES :][:IMAGES].reshape(-1, LANES)
        expected[k, which, 8] += above.sum(0) * (which == 0)
        channel = k // group * group + which
        for *places, weight in TABLE[:2].tolist():
            for s in range(COLUMNS):
                begin = places[p * STRIDE + s] * ROW + channel * IMAGES
                below = inputs[begin : begin + IMAGES].reshape(-1, LANES)
                expected[k, which, weight + s] += (above * below).sum(0)
    added(sums, gradient, inputs, table(), group, which)
    assert_array_equal(sums, expected.reshape(-1))


@kernel
def copied(out: Any, inputs: Any, vectors: int) -> None:
    copied_tile(out, 3, inputs, 5, ANYWHERE, vectors)


@pytest.mark.parametrize("vectors", range(7))
def test_so_many_vectors_are_copied(vectors: int) -> None:
    rng = np.random.default_rng(2)
    out, inputs = numbers(rng, 7 * LANES), numbers(rng, 8 * LANES)
    expected = out.copy()
    expected[3 : 3 + vectors * LANES] = inputs[5 : 5 + vectors * LANES]
    copied(out, inputs, vectors)
    assert_array_equal(out, expected)
