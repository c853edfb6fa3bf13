from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.normalisation.lrn_tiles import (
    SIZE,
    response_gradients_tile,
    responses_tile,
)

ROW = 3 * LANES
FACTOR, BIAS = 0.2, 1.5
UNTOUCHED = 77


@kernel
def responses(out: Any, values: Any, channels: int) -> None:
    responses_tile(out, ROW, values, 5, ROW, channels, np.float32(FACTOR), np.float32(BIAS), False)


@kernel
def gradients(out: Any, values: Any, gradient: Any, channels: int) -> None:
    response_gradients_tile(
        out, ROW, out, ROW, values, 5, gradient, 3, ROW, channels, np.float32(FACTOR),
        np.float32(BIAS), False, False, False,
    )  # fmt: skip


def window_sums(values: np.ndarray) -> np.ndarray:
    side = SIZE // 2
    bordered = np.pad(values, ((side, side), (0, 0)))
    return sum(bordered[i : i + len(values)] for i in range(SIZE))


def drawn(seed: int, index: int, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Flat values, and the rows of channels that begin at `index` in float64."""
    flat = np.random.default_rng(seed).standard_normal(channels * ROW + 9).astype(np.float32)
    return flat, flat[index : index + channels * ROW].reshape(channels, ROW).astype(np.float64)


def surrounded(channels: int) -> np.ndarray:
    out = aligned_zeros((channels + 2, ROW))
    out[...] = UNTOUCHED
    return out


def check(out: np.ndarray, expected: np.ndarray) -> None:
    assert (out[[0, -1]] == UNTOUCHED).all()
    assert_allclose(out[1:-1], expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("channels", [SIZE, SIZE + 1, 4 * SIZE])
def test_responses_of_all_columns_and_channels(channels: int) -> None:
    (flat, values), out = drawn(1, 5, channels), surrounded(channels)
    responses(out.reshape(-1), flat, channels)
    check(out, values * (BIAS + FACTOR * window_sums(values**2)) ** -0.75)


@pytest.mark.parametrize("channels", [SIZE, SIZE + 1, 4 * SIZE])
def test_gradients_of_all_columns_and_channels(channels: int) -> None:
    (flat, values), (above, slopes) = drawn(1, 5, channels), drawn(2, 3, channels)
    out = surrounded(channels)
    gradients(out.reshape(-1), flat, above, channels)
    sums = BIAS + FACTOR * window_sums(values**2)
    spread = window_sums(slopes * values * sums**-1.75)
    check(out, slopes * sums**-0.75 - 1.5 * FACTOR * values * spread)
