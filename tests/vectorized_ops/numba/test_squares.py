from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._square_tiles import TAPS
from vectorized_ops.numba._squares import block_size, square_kernel, square_weights_kernel
from vectorized_ops.winograd import winograd_transform

ROWS, IMAGES = 8, 16


def whole_numbers(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    return out


def garbage(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.nan
    return out


def packed(weights: np.ndarray, outputs: int, backward: bool, threads: int = 1) -> np.ndarray:
    """Points of weights (K, C, 3, 3), as the kernel writes them: (points, blocks, floats)."""
    filters, channels = weights.shape[:2]
    if backward:
        filters, channels = channels, filters
    points, blocks = (outputs + TAPS - 1) ** 2, -(-filters // ROWS)
    out = garbage(points, blocks, block_size(ROWS, channels))
    square_weights_kernel(outputs)(
        weights.reshape(-1), out.reshape(-1), ROWS, filters, channels, backward,
        garbage(threads, TAPS * TAPS, LANES),
    )  # fmt: skip
    return out


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("outputs", [2, 4])
def test_weights_are_packed_point_by_point_in_blocks_of_which_the_last_overlaps(
    outputs: int, backward: bool, threads: int
) -> None:
    weights = whole_numbers(11, 9, TAPS, TAPS)
    matrix = np.array(winograd_transform(outputs, TAPS).weights_map, np.float64)
    used = weights.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1] if backward else weights
    filters, channels = used.shape[:2]
    points = np.einsum("ai,kcij,bj->abck", matrix, used, matrix).reshape(-1, channels, filters)
    found = packed(weights, outputs, backward, threads)[:, :, : channels * ROWS]
    for number, begin in enumerate((0, filters - ROWS)):
        expected = points[:, :, begin : begin + ROWS].reshape(len(points), -1)
        assert_allclose(found[:, number], expected, rtol=0, atol=1e-6)


def correlated(images: np.ndarray, weights: np.ndarray, padding: tuple[int, int]) -> np.ndarray:
    """Images (H, W, C, N) bordered with zeros, by definition: (H', W', K, N)."""
    border = [(side, side) for side in padding]
    bordered = np.pad(images, [*border, (0, 0), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(bordered, (TAPS, TAPS), axis=(0, 1))
    return np.einsum("yxcnij,kcij->yxkn", windows, weights)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_tiles_of_all_threads_and_turns_make_one_map(at_once: int, threads: int) -> None:
    filters, channels, padding = 11, 2, (1, 0)
    images, weights = whole_numbers(5, 8, channels, IMAGES), whole_numbers(filters, 2, TAPS, TAPS)
    bias = whole_numbers(filters)
    expected = correlated(images, weights, padding) + bias[:, None]
    out, points = garbage(*expected.shape), 16
    square_kernel(2, ROWS)(
        images.reshape(-1), channels * IMAGES, images.shape[:2], channels,
        packed(weights, 2, False).reshape(-1), bias, out.reshape(-1), filters * IMAGES,
        expected.shape[:2], filters, IMAGES, padding, out.reshape(-1), 0, 0,
        garbage(threads, points * at_once * channels * IMAGES),
        garbage(threads, points * at_once * filters * IMAGES),
        aligned_zeros((filters * IMAGES,)), np.array([0, 0, channels]), at_once,
    )  # fmt: skip
    assert_array_equal(out, expected)
