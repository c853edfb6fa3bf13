from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, PAST, RELU
from vectorized_ops.numba.kernels.convolution.direct_tiles import correlation_tile

ROWS, IMAGES = 3, 3 * LANES
SEGMENTS = np.array([[5, 2, 1], [IMAGES, 0, 2], [4 * IMAGES + 1, 4, 7], [2, 0, 1]])
"""Triples (place, row, steps)."""

UNTOUCHED = 77

ANYWHERE = 2**44
"""What is only asked for may lie outside of all memory."""


NO_BITS = np.zeros(1, np.int32)


@kernel
def narrow(
    out: Any, bias: Any, weights: Any, inputs: Any, segments: Any, first: int, count: int,
    mask: Any, mode: int, done: int,
) -> None:  # fmt: skip
    correlation_tile(
        3, 1, 0, out, 7, 3 * LANES, bias, 1, weights, 6, inputs, 4, segments, first, count, mask, 9,
        mode, done, inputs, ANYWHERE, ANYWHERE, False, out, 0, out, 0, False, NO_BITS, 0,
    )  # fmt: skip


@kernel
def wide(
    out: Any, bias: Any, weights: Any, inputs: Any, segments: Any, first: int, count: int,
    mask: Any, mode: int, done: int,
) -> None:  # fmt: skip
    correlation_tile(
        3, 2, 0, out, 7, 3 * LANES, bias, 1, weights, 6, inputs, 4, segments, first, count, mask, 9,
        mode, done, inputs, ANYWHERE, ANYWHERE, False, out, 0, out, 0, False, NO_BITS, 0,
    )  # fmt: skip


@kernel
def narrow_pairs(
    out: Any, bias: Any, weights: Any, inputs: Any, segments: Any, first: int, count: int,
    mask: Any, mode: int, done: int,
) -> None:  # fmt: skip
    correlation_tile(
        3, 1, 1, out, 7, 3 * LANES, bias, 1, weights, 6, inputs, 4, segments, first, count, mask, 9,
        mode, done, inputs, ANYWHERE, ANYWHERE, False, bias, 0, bias, 0, False, NO_BITS, 0,
    )  # fmt: skip


@kernel
def wide_pairs(
    out: Any, bias: Any, weights: Any, inputs: Any, segments: Any, first: int, count: int,
    mask: Any, mode: int, done: int,
) -> None:  # fmt: skip
    correlation_tile(
        3, 2, 1, out, 7, 3 * LANES, bias, 1, weights, 6, inputs, 4, segments, first, count, mask, 9,
        mode, done, inputs, ANYWHERE, ANYWHERE, False, bias, 0, bias, 0, False, NO_BITS, 0,
    )  # fmt: skip


@kernel
def aligned(out: Any, bias: Any, weights: Any, inputs: Any, segments: Any, mode: int) -> None:
    correlation_tile(
        3, 2, 0, out, 0, 3 * LANES, bias, 1, weights, 6, inputs, 4, segments, 0, 4, out, 0, mode, 0,
        inputs, 0, 1, False, out, 0, out, 0, False, NO_BITS, 0,
    )  # fmt: skip


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize(("first", "count"), [(1, 0), (0, 1), (1, 2), (0, 4)])
@pytest.mark.parametrize("mode", [0, RELU, ADD, MASK, ADD | MASK])
@pytest.mark.parametrize(
    ("columns", "correlate", "pairs"),
    [(1, narrow, 0), (2, wide, 0), (1, narrow_pairs, 1), (2, wide_pairs, 1)],
)
def test_tile_correlates_its_segments_and_writes_nothing_else(
    columns: int, correlate: Any, pairs: int, mode: int, first: int, count: int
) -> None:
    width, done = columns * LANES, 1 if mode & ADD else 0
    weights, inputs = whole_numbers(6 + 12 * ROWS), whole_numbers(15 * IMAGES)
    bias, out = np.array([99, 1, -2, 3], np.float32), whole_numbers(ROWS * IMAGES + 40)
    mask = whole_numbers(1, len(out))[0]
    mask[9:13] = np.nan, 0, -0.0, 1e-30
    before, segments, rows = out.copy(), SEGMENTS.copy(), weights[6:].reshape(-1, ROWS)
    segments[:, 2] += pairs * (segments[:, 2] % 2)
    if pairs:
        weights = np.concatenate([weights[:6], paired(rows[::2], rows[1::2]).reshape(-1)])
    given = [rounded(array) if pairs else array for array in (out, inputs, mask)]
    correlate(
        given[0], bias, weights, given[1], segments.reshape(-1), first, count, given[2], mode, done
    )

    sums = np.repeat(bias[1:, None], width, axis=1)
    for place, row, steps in segments[first : first + count]:
        for t in range(steps):
            sums += np.outer(rows[row + t], inputs[4 + place + t * IMAGES :][:width])
    expected = before.copy()
    for i in range(done, ROWS):
        target = expected[7 + i * IMAGES :][:width]
        value = target + sums[i] if mode & ADD else sums[i]
        if mode & RELU:
            value = np.maximum(value, 0)
        if mode & MASK:
            value = np.where(mask[9 + i * IMAGES :][:width] <= 0, 0, value)
        target[...] = value
    assert_array_equal(widened(given[0]), expected)


@pytest.mark.parametrize("mode", [0, RELU])
def test_stores_past_the_caches_write_the_same(mode: int) -> None:
    weights, inputs = whole_numbers(6 + 12 * ROWS), whole_numbers(15 * IMAGES)
    bias, out = np.array([99, 1, -2, 3], np.float32), aligned_zeros((2, ROWS * IMAGES))
    for each, way in zip(out, (mode, mode | PAST), strict=True):
        aligned(each, bias, weights, inputs, SEGMENTS.reshape(-1), way)
    assert out[0].any()
    assert_array_equal(out[1], out[0])


@pytest.mark.parametrize("done", [0, 1, 2])
def test_rows_that_another_tile_has_written_are_not_added_twice(done: int) -> None:
    out = np.full(ROWS * IMAGES + 40, UNTOUCHED, np.float32)
    bias, nothing = np.full(ROWS + 1, 5, np.float32), np.zeros(1, np.float32)
    narrow(out, bias, nothing, nothing, SEGMENTS.reshape(-1), 0, 0, nothing, ADD, done)
    written = out[7 : 7 + ROWS * IMAGES].reshape(ROWS, IMAGES)[:, :LANES]
    assert_array_equal(written[:done], np.full((done, LANES), UNTOUCHED))
    assert_array_equal(written[done:], np.full((ROWS - done, LANES), UNTOUCHED + 5))


def test_what_is_not_a_number_passes_the_relu() -> None:
    out, nothing = np.zeros(ROWS * IMAGES + 40, np.float32), np.zeros(1, np.float32)
    bias = np.array([0, np.nan, -np.inf, np.inf], np.float32)
    narrow(out, bias, nothing, nothing, SEGMENTS.reshape(-1), 0, 0, nothing, RELU, 0)
    written = out[7 : 7 + ROWS * IMAGES].reshape(ROWS, IMAGES)[:, 0]
    assert_array_equal(written, [np.nan, 0, np.inf])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86 instructions")
def test_second_cache_is_asked_for_what_comes(assemblies: Callable[[Any], list[str]]) -> None:
    nothing = np.zeros(1, np.float32)
    narrow(
        np.zeros(ROWS * IMAGES + 40, np.float32), np.zeros(4, np.float32), nothing, nothing,
        SEGMENTS.reshape(-1), 0, 0, nothing, 0, 0,
    )  # fmt: skip
    for assembly in assemblies(narrow):
        assert "prefetcht1" in assembly
