from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.kernels.pictures.float_tiles import (
    UNROLLED,
    finished_tile,
    weighted_pixels_tile,
)
from vectorized_ops.numba.kernels.pictures.tiles import STEP
from vectorized_ops.reference.pictures import coloured

SIZE = 2 * STEP


@kernel
def finished(
    out: Any, values: Any, means: Any, scales: Any, colours: Any, is_coloured: bool, past: bool
) -> None:
    finished_tile(out, 0, values, 0, means, 0, scales, 2, colours, is_coloured, past)


@kernel
def weighted(
    out: Any, values: Any, starts: Any, weights: Any, number: int, is_reversed: bool
) -> None:
    weighted_pixels_tile(out, values, starts, weights, number, len(starts), is_reversed)


@pytest.mark.parametrize("is_coloured", [False, True])
@pytest.mark.parametrize("past", [False, True])
def test_values_are_mixed_and_normalised(is_coloured: bool, past: bool) -> None:
    rng = np.random.default_rng(0)
    values, means, scales = rng.normal(size=(3, SIZE)).astype(np.float32)
    colours = rng.normal(size=(3, 4)).astype(np.float32)
    mixed = coloured(values.reshape(1, -1, 3), colours, None).reshape(-1)
    expected = ((mixed if is_coloured else values) - means) * scales
    out = aligned_zeros((SIZE + 16,))
    out.fill(77)
    finished(out, values, means, scales, colours.reshape(-1), is_coloured, past)
    assert_array_equal(out[:SIZE], expected)
    assert (out[SIZE:] == 77).all()
    finished(values, values, means, scales, colours.reshape(-1), is_coloured, False)
    assert_array_equal(values, expected)


@pytest.mark.parametrize("number", [1, 2, UNROLLED, UNROLLED + 3])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_pixels_are_summed_by_their_weights_from_left_to_right(
    number: int, is_reversed: bool
) -> None:
    rng = np.random.default_rng(number)
    values, starts = rng.normal(size=(40, 3)).astype(np.float32), rng.integers(0, 20, 7)
    weights = rng.normal(size=(7, number)).astype(np.float32)
    expected = np.zeros((7, 3), np.float32)
    for tap in range(number):
        expected += weights[:, tap, None] * values[starts + tap]
    out = np.full(22, 77, np.float32)
    weighted(out, values.reshape(-1), starts, weights.reshape(-1), number, is_reversed)
    expected = expected[:, ::-1] if is_reversed else expected
    assert_array_equal(out[:21].reshape(7, 3), expected)
