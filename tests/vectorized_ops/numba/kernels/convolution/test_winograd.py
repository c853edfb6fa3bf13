from __future__ import annotations

import numpy as np
import pytest
from contracts.bfloat16 import nearest, paired
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.direct import block_size, weights_step
from vectorized_ops.numba.kernels.convolution.winograd import (
    CHANNELS_AT_ONCE,
    GAP,
    PIECE,
    square_kernel,
    square_weights_kernel,
)
from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import items_of
from vectorized_ops.winograd import winograd_transform

ROWS, SIZES = 8, [(2, 3), (4, 3), (2, 5), (4, 5)]
"""Of a register tile; F(m x m, r x r) as (m, r)."""


def whole_numbers(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    return out


def garbage(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.nan
    return out


def packed(
    weights: np.ndarray, outputs: int, backward: bool, threads: int = 1, pairs: bool = False
) -> np.ndarray:
    """Points of weights (K, C, r, r), as the kernel writes them: (points, floats)."""
    filters, channels, taps, _ = weights.shape
    if backward:
        filters, channels = channels, filters
    points, blocks = (outputs + taps - 1) ** 2, -(-filters // ROWS)
    out = garbage(points, weights_step(blocks, ROWS, channels))
    square_weights_kernel(outputs, taps)(
        weights.reshape(-1), out.reshape(-1), ROWS, filters, channels, backward,
        garbage(threads, CHANNELS_AT_ONCE * taps * taps, LANES), points,
        pairs,
    )  # fmt: skip
    return out


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("counts", [(11, 9), (8, 37), (40, 8)])
@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_weights_are_packed_point_by_point_in_blocks_of_which_the_last_overlaps(
    outputs: int, taps: int, counts: tuple[int, int], backward: bool, threads: int
) -> None:
    weights = whole_numbers(*counts, taps, taps)
    matrix = np.array(winograd_transform(outputs, taps).weights_map, np.float64)
    used = weights.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1] if backward else weights
    filters, channels = used.shape[:2]
    points = np.einsum("ai,kcij,bj->abck", matrix, used, matrix).reshape(-1, channels, filters)
    found = packed(weights, outputs, backward, threads)
    size = block_size(ROWS, channels)
    begins = [min(begin, filters - ROWS) for begin in range(0, filters, ROWS)]
    for number, begin in enumerate(begins):
        expected = points[:, :, begin : begin + ROWS].reshape(len(points), -1)
        block = found[:, number * size :][:, : channels * ROWS]
        assert_allclose(block, expected, rtol=0, atol=1e-6)


def correlated(images: np.ndarray, weights: np.ndarray, padding: tuple[int, int]) -> np.ndarray:
    """Images (H, W, C, N) bordered with zeros, by definition: (H', W', K, N)."""
    border = [(side, side) for side in padding]
    bordered = np.pad(images, [*border, (0, 0), (0, 0)])
    side = weights.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(bordered, side, axis=(0, 1))
    return np.einsum("yxcnij,kcij->yxkn", windows, weights)


def test_weights_become_pairs_of_neighbouring_channels() -> None:
    weights = 4 * whole_numbers(11, 6, 3, 3)
    single, pairs = (packed(weights, 2, False, 1, pairs) for pairs in (False, True))
    size = block_size(ROWS, 6)
    for number in range(2):
        block = single[:, number * size :][:, : 6 * ROWS].reshape(-1, 6, ROWS)
        found = pairs[:, number * size :][:, : 3 * ROWS].reshape(-1, 3, ROWS)
        assert_array_equal(found, paired(block[:, ::2], block[:, 1::2]))


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("number", [LANES, PIECE, 2 * PIECE + LANES])
def test_items_of_all_threads_and_turns_make_one_map(
    number: int, at_once: int, threads: int, pairs: bool
) -> None:
    filters, channels, padding, side = 11, 4, (1, 0), 3
    images, weights = whole_numbers(5, 8, channels, number), whole_numbers(filters, 4, side, side)
    bias = whole_numbers(filters)
    expected = correlated(images, weights, padding) + bias[:, None]
    given, out, zeros = images.reshape(-1), garbage(*expected.shape), aligned_zeros((11 * number,))
    transformed, points = garbage(threads, 16 * (at_once * channels * PIECE + GAP)), 16
    stored, written = (), ()
    if pairs:
        given, transformed, zeros = rounded(given), transformed.view(np.uint16), rounded(zeros)
        out, stored, written = rounded(out), ("images", "zeros"), ("out", "mask")
    items = items_of(expected.shape[:2], 2, side, number, PIECE, threads)
    square_kernel(2, side, ROWS, items.ends, number, stored, written, pairs)(
        given, channels * number, images.shape[:2], channels,
        packed(weights, 2, False, 1, pairs).reshape(-1), bias, out.reshape(-1), filters * number,
        expected.shape[:2], filters, number, padding, out.reshape(-1), 0, 0,
        transformed, garbage(threads, points * (at_once * filters * PIECE + GAP)),
        zeros, at_once, items.table, items.parts,
    )  # fmt: skip
    assert_array_equal(widened(out), nearest(expected) if pairs else expected)
