from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba import _winograd_kernels as kernels
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import COLUMN_ROWS, cheapest_rows
from vectorized_ops.numba._tiles import DOT_COLUMNS
from vectorized_ops.numba._winograd_tiles import TAPS, TRANSFORM

A, G, B = (
    np.array(matrix, np.float64)
    for matrix in (TRANSFORM.output_map, TRANSFORM.weights_map, TRANSFORM.input_map)
)
SQUARE = kernels.SQUARE
FILTERS, CHANNELS, NUMBER = 5, DOT_COLUMNS + 1, 2 * LANES
"""Pairs of filter and channel fill no whole vectors; two vectors of images."""


def normal(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.random.default_rng(len(shape)).standard_normal(shape)
    return out


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert_allclose(found, expected, rtol=0, atol=4e-6 * np.abs(expected).max())


def blocks_of(tiles: np.ndarray) -> np.ndarray:
    """Tiles (C, across and down, i, j, N) as blocks (N / LANES * tiles, i * j, C, LANES)."""
    channels, number, rows, columns, images = tiles.shape
    split = tiles.reshape(channels, number, rows * columns, images // LANES, LANES)
    return split.transpose(3, 1, 2, 0, 4).reshape(-1, rows * columns, channels, LANES)


def tiles_of(plane: np.ndarray, size: int) -> np.ndarray:
    """Tiles of size x size pixels, 4 apart, of images (C, H, W, N), line by line."""
    lines, pixels = ((side - size) // 4 + 1 for side in plane.shape[1:3])
    corners = [(4 * y, 4 * x) for y in range(lines) for x in range(pixels)]
    return np.stack([plane[:, y : y + size, x : x + size] for y, x in corners], axis=1)


def mapped(matrix: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    return np.einsum("ai,ctijn,bj->ctabn", matrix, tiles.astype(np.float64), matrix)


@pytest.mark.parametrize("threads", [1, 3])
def test_weights_are_transformed_in_both_orders(threads: int) -> None:
    weights = normal(FILTERS, CHANNELS, TAPS, TAPS)
    pairs = -(-FILTERS * CHANNELS // LANES) * LANES
    by_channel, by_filter = aligned_zeros((SQUARE, pairs)), aligned_zeros((SQUARE, pairs))
    taps = aligned_zeros((threads, TAPS * TAPS, LANES))
    kernels.transform_weights(weights, by_channel, by_filter, taps)
    points = np.einsum("ai,kcij,bj->abkc", G, weights, G).reshape(SQUARE, FILTERS, CHANNELS)
    used = FILTERS * CHANNELS
    assert_close(by_filter[:, :used], points.reshape(SQUARE, used))
    assert_close(by_channel[:, :used], points.transpose(0, 2, 1).reshape(SQUARE, used))


@pytest.mark.parametrize("threads", [1, 3])
def test_forward_keeps_the_points_of_the_images_and_pools_their_products(threads: int) -> None:
    images, products = normal(CHANNELS, 8, 12, NUMBER), normal(SQUARE, CHANNELS * FILTERS)
    out = aligned_zeros((FILTERS, 2, 4, NUMBER))
    which = aligned_zeros(out.shape, np.uint8)
    points = aligned_zeros((NUMBER // LANES * 2, SQUARE, CHANNELS, LANES))
    bias = normal(FILTERS)
    kernels.forward(
        images, products, bias, out, which, points,
        aligned_zeros((threads, SQUARE, FILTERS, LANES)), np.arange(CHANNELS) * LANES,
        cheapest_rows(FILTERS, COLUMN_ROWS),
    )  # fmt: skip
    tiles = mapped(B, tiles_of(images, 8))
    assert_close(points, blocks_of(tiles))
    by_point = products.reshape(8, 8, CHANNELS, FILTERS)
    outputs = mapped(A, np.einsum("ctabn,abck->ktabn", tiles, by_point))
    # Two tiles side by side, each of 2x2 windows of 2x2 pixels.
    windows = outputs.reshape(FILTERS, 2, 2, 2, 2, 2, NUMBER).transpose(0, 2, 1, 4, 3, 5, 6)
    windows = windows.reshape(FILTERS, 2, 4, 4, NUMBER)
    assert_close(out, windows.max(axis=3) + bias[:, None, None, None])
    chosen = np.take_along_axis(windows, which[:, :, :, None].astype(int), axis=3)[:, :, :, 0]
    assert_close(chosen, windows.max(axis=3))


@pytest.mark.parametrize("threads", [1, 3])
def test_gradient_is_spread_and_transformed_block_by_block(threads: int) -> None:
    gradient = normal(FILTERS, 2, 4, NUMBER)
    which = np.random.default_rng(0).integers(0, 4, gradient.shape).astype(np.uint8)
    points = aligned_zeros((NUMBER // LANES * 2, SQUARE, FILTERS, LANES))
    kernels.transform_gradient(gradient, which, points, threads)
    spread = np.zeros((FILTERS, 4, 8, NUMBER))
    for place in range(4):
        part = np.where(which == place, gradient, 0)
        spread[:, place // 2 :: 2, place % 2 :: 2] = part
    assert_close(points, blocks_of(mapped(A.T, tiles_of(spread, 4))))


@pytest.mark.parametrize("threads", [1, 3])
def test_gradient_of_images_adds_up_where_tiles_overlap(threads: int) -> None:
    points = normal(NUMBER // LANES * 2, SQUARE, FILTERS, LANES)
    by_filter = normal(SQUARE, FILTERS * CHANNELS)
    out = aligned_zeros((CHANNELS, 8, 12, NUMBER))
    out[...] = 99
    kernels.backward_data(
        points, by_filter, out, aligned_zeros((threads, SQUARE, CHANNELS, LANES)),
        np.arange(FILTERS) * LANES, cheapest_rows(CHANNELS, COLUMN_ROWS), 2,
    )  # fmt: skip
    blocks = points.reshape(NUMBER // LANES, 2, 8, 8, FILTERS, LANES)
    weights = by_filter.reshape(8, 8, FILTERS, CHANNELS)
    tiles = mapped(
        B.T, np.einsum("vtabkl,abkc->ctabvl", blocks, weights).reshape(CHANNELS, 2, 8, 8, NUMBER)
    )
    expected = np.zeros(out.shape)
    expected[:, :, :8] += tiles[:, 0]
    expected[:, :, 4:] += tiles[:, 1]
    assert_close(out, expected)


@pytest.mark.parametrize("threads", [1, 3, 4])  # of which one has no block to do
def test_gradient_of_weights_sums_over_blocks_and_images(threads: int) -> None:
    blocks = 3
    inputs, outputs = (
        normal(blocks, SQUARE, CHANNELS, LANES),
        normal(blocks, SQUARE, FILTERS, LANES),
    )
    outputs *= np.float32(0.5)
    pairs = -(-FILTERS * CHANNELS // LANES) * LANES
    out = np.full((FILTERS, CHANNELS, TAPS, TAPS), 99, np.float32)
    sums = aligned_zeros((threads, SQUARE, pairs))
    sums[...] = 99  # as an earlier step left them
    kernels.backward_weights(
        inputs, outputs, np.arange(blocks) * inputs[0].size, np.arange(blocks) * outputs[0].size,
        np.arange(CHANNELS) * LANES, sums, out,
        aligned_zeros((threads, TAPS * TAPS, LANES)),
    )  # fmt: skip
    points = np.einsum("bpkl,bpcl->pkc", outputs.astype(np.float64), inputs)
    square = points.reshape(8, 8, FILTERS, CHANNELS)
    assert_close(out, np.einsum("ai,abkc,bj->kcij", G, square, G))


def test_points_are_the_squares_of_the_transform() -> None:
    assert (SQUARE, kernels.AREA) == (64, 25)
    assert_array_equal([A.shape, G.shape, B.shape], [(4, 8), (8, 5), (8, 8)])
