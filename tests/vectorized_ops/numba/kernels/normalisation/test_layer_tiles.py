from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.normalisation.layer_tiles import (
    GROUP,
    SUMS,
    layer_gradients_tile,
    layer_normalised_tile,
)
from vectorized_ops.reference.layer_normalisation import LayerNormalisation

VECTORS = GROUP + 1
ROW = VECTORS * LANES
EPSILON = 0.25
UNTOUCHED = 77


@kernel
def normalised(out: Any, values: Any, scale: Any, shift: Any) -> None:
    channels = len(scale)
    layer_normalised_tile(
        out, ROW, values, 5, ROW, ROW, channels, VECTORS, np.float32(channels), scale, shift,
        np.float32(EPSILON), False,
    )  # fmt: skip


@kernel
def gradients(out: Any, values: Any, gradient: Any, scale: Any, sums: Any, add: bool) -> None:
    channels = len(scale)
    layer_gradients_tile(
        out, ROW, out, ROW, values, 5, ROW, gradient, 3, ROW, ROW, channels, VECTORS,
        np.float32(channels), scale, sums, np.float32(EPSILON), add, False, False,
    )  # fmt: skip


def drawn(seed: int, index: int, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Flat values, and the images (N, C) that begin at `index` in float64."""
    flat = np.random.default_rng(seed).standard_normal(channels * ROW + 9).astype(np.float32)
    rows = flat[index : index + channels * ROW].reshape(channels, ROW)
    return flat, rows.T.astype(np.float64)


def surrounded(channels: int) -> np.ndarray:
    out = aligned_zeros((channels + 2, ROW))
    out[...] = UNTOUCHED
    return out


def check(out: np.ndarray, expected: np.ndarray) -> None:
    assert (out[[0, -1]] == UNTOUCHED).all()
    assert_allclose(out[1:-1].T, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("channels", [1, 7])
def test_values_of_all_columns_and_channels(channels: int) -> None:
    (flat, values), out = drawn(0, 5, channels), surrounded(channels)
    scale, shift = np.random.default_rng(1).normal(size=(2, channels)).astype(np.float32)
    normalised(out.reshape(-1), flat, scale, shift)
    expected = np.empty_like(values)
    LayerNormalisation(EPSILON).forward(values, scale, shift, expected)
    check(out, expected)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("channels", [1, 7])
def test_gradients_are_delivered_and_sums_added_to(channels: int, add: bool) -> None:
    (flat, values), (above, gradient) = drawn(0, 5, channels), drawn(2, 3, channels)
    scale = np.random.default_rng(1).normal(size=channels).astype(np.float32)
    out, sums = surrounded(channels), np.ones(channels * SUMS, np.float32)
    gradients(out.reshape(-1), flat, above, scale, sums, add)
    scale_out, shift_out, expected = np.empty(channels), np.empty(channels), np.empty_like(values)
    LayerNormalisation(EPSILON).backward(values, gradient, scale, scale_out, shift_out, expected)
    check(out, expected + UNTOUCHED * add)
    found = sums.reshape(channels, 2, LANES).sum(axis=-1) - LANES
    assert_allclose(found, np.stack([shift_out, scale_out], -1), atol=1e-4)
