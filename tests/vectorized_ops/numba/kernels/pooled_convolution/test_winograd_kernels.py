from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.dot_tiles import DOT_COLUMNS
from vectorized_ops.numba.kernels.convolution.winograd_pooled_transforms import TAPS, TRANSFORM
from vectorized_ops.numba.kernels.pooled_convolution import winograd_kernels as kernels

A, G, B = (
    np.array(matrix, np.float64)
    for matrix in (TRANSFORM.output_map, TRANSFORM.weights_map, TRANSFORM.input_map)
)
SQUARE = kernels.SQUARE
FILTERS, CHANNELS, NUMBER = 5, DOT_COLUMNS + 1, 2 * LANES
"""Pairs of filter and channel fill no whole vectors; two vectors of images."""

MAPS = kernels.Maps(NUMBER, 8, 12, CHANNELS, FILTERS)
PAIRS = -(-FILTERS * CHANNELS // LANES) * LANES
PLACES = np.arange(FILTERS * CHANNELS).reshape(FILTERS, CHANNELS) * TAPS * TAPS


def normal(*shape: int) -> np.ndarray:
    out = aligned_zeros(shape)
    out[...] = np.random.default_rng(len(shape)).standard_normal(shape)
    return out


def in_memory(images: np.ndarray) -> tuple[np.ndarray, int]:
    """Images (C, H, W, N) as kernels are given them, with one more channel between pixels."""
    channels, lines, pixels, number = images.shape
    memory = aligned_zeros((lines, pixels, channels + 1, number), images.dtype)
    memory[:, :, :channels] = images.transpose(1, 2, 0, 3)
    return memory.reshape(-1), (channels + 1) * number


def back(flat: np.ndarray, like: np.ndarray) -> np.ndarray:
    """What `in_memory` was given, as it lies in flat memory now; what lies between is zero."""
    channels, lines, pixels, number = like.shape
    memory = flat.reshape(lines, pixels, channels + 1, number)
    assert not memory[:, :, channels:].any()
    return memory[:, :, :channels].transpose(2, 0, 1, 3)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert_allclose(found, expected, rtol=0, atol=4e-6 * np.abs(expected).max())


def tiles_of(plane: np.ndarray, size: int) -> np.ndarray:
    """Tiles of size x size pixels, 4 apart, of images (C, H, W, N), line by line."""
    lines, pixels = ((side - size) // 4 + 1 for side in plane.shape[1:3])
    corners = [(4 * y, 4 * x) for y in range(lines) for x in range(pixels)]
    return np.stack([plane[:, y : y + size, x : x + size] for y, x in corners], axis=1)


def mapped(matrix: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    return np.einsum("ai,ctijn,bj->ctabn", matrix, tiles.astype(np.float64), matrix)


def test_weights_are_transformed_in_the_order_of_their_places() -> None:
    weights = normal(FILTERS, CHANNELS, TAPS, TAPS)
    places = np.random.default_rng(0).permutation(FILTERS * CHANNELS) * TAPS * TAPS
    places = np.resize(places, PAIRS)
    out = aligned_zeros((SQUARE, PAIRS))
    kernels.transform_weights(weights.reshape(-1), places, out)
    points = np.einsum("ai,kcij,bj->abkc", G, weights, G).reshape(SQUARE, -1)
    assert_close(out, points[:, places // (TAPS * TAPS)])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("height", [3, FILTERS])  # of 3, two tiles overlap
def test_forward_pools_the_products_of_the_points(height: int, threads: int) -> None:
    images, weights = normal(CHANNELS, 8, 12, NUMBER), normal(FILTERS, CHANNELS, TAPS, TAPS)
    out = aligned_zeros((FILTERS, 2, 4, NUMBER))
    which = aligned_zeros(out.shape, np.uint8)
    bias = normal(FILTERS)
    out_memory, which_memory = in_memory(out), in_memory(which)
    kernels.forward_kernel(height)(
        MAPS, *in_memory(images), weights.reshape(-1), np.resize(PLACES.T, PAIRS),
        aligned_zeros((threads, SQUARE, PAIRS)), bias, *out_memory, *which_memory,
        aligned_zeros((threads, 2, SQUARE, kernels.point_rows(CHANNELS), LANES)),
        aligned_zeros((threads, 2, SQUARE, kernels.point_rows(FILTERS), LANES)),
        np.arange(CHANNELS) * LANES,
    )  # fmt: skip
    out, which = back(out_memory[0], out), back(which_memory[0], which)
    tiles = mapped(B, tiles_of(images, 8))
    by_point = np.einsum("ai,kcij,bj->abkc", G, weights, G)
    outputs = mapped(A, np.einsum("ctabn,abkc->ktabn", tiles, by_point))
    # Two tiles side by side, each of 2x2 windows of 2x2 pixels.
    windows = outputs.reshape(FILTERS, 2, 2, 2, 2, 2, NUMBER).transpose(0, 2, 1, 4, 3, 5, 6)
    windows = windows.reshape(FILTERS, 2, 4, 4, NUMBER)
    assert_close(out, windows.max(axis=3) + bias[:, None, None, None])
    chosen = np.take_along_axis(windows, which[:, :, :, None].astype(int), axis=3)[:, :, :, 0]
    assert_close(chosen, windows.max(axis=3))


@pytest.mark.parametrize("threads", [1, 3])  # of three, one has no images
@pytest.mark.parametrize("target", ["nowhere", "written", "added", "masked"])
@pytest.mark.parametrize("height", [2, CHANNELS])  # of 2, two tiles overlap
def test_backward_is_the_adjoint_of_forward(height: int, threads: int, target: str) -> None:
    images, gradient = normal(CHANNELS, 8, 12, NUMBER), normal(FILTERS, 2, 4, NUMBER)
    which = np.random.default_rng(0).integers(0, 4, gradient.shape).astype(np.uint8)
    weights = normal(FILTERS, CHANNELS, TAPS, TAPS)
    images_out, pixel = in_memory(np.full_like(images, 99))  # as an earlier step left it
    sums = aligned_zeros((threads, SQUARE, PAIRS))
    sums[...] = 99
    taps = aligned_zeros((threads, PAIRS // LANES, TAPS * TAPS, LANES))
    taps[...] = 99
    inputs, outputs, products = (
        aligned_zeros((threads, 2, SQUARE, extent, LANES))
        for extent in map(kernels.point_rows, (CHANNELS, FILTERS, CHANNELS))
    )
    tables = (
        np.arange(2) * inputs[0, 0].size, np.arange(2) * outputs[0, 0].size,
        np.arange(CHANNELS) * LANES, np.arange(FILTERS) * LANES,
    )  # fmt: skip
    kernels.backward_kernel(height)(
        MAPS, *in_memory(images), *in_memory(gradient), *in_memory(which), inputs, outputs, sums,
        aligned_zeros((threads, PAIRS)), tables, weights.reshape(-1),
        np.resize(PLACES, PAIRS), aligned_zeros((threads, SQUARE, PAIRS)), taps, products,
        images_out, pixel, target != "nowhere",
        target == "added", *in_memory(images), target == "masked",
    )  # fmt: skip
    found = back(images_out, images)
    spread = np.zeros((FILTERS, 4, 8, NUMBER))
    for place in range(4):
        spread[:, place // 2 :: 2, place % 2 :: 2] = np.where(which == place, gradient, 0)
    seen, wished = mapped(B, tiles_of(images, 8)), mapped(A.T, tiles_of(spread, 4))
    weights_out = np.full_like(weights, 99)
    kernels.write_weights(taps, weights_out)
    points = np.einsum("ktabn,ctabn->abkc", wished, seen)
    assert_close(weights_out, np.einsum("ai,abkc,bj->kcij", G, points, G))
    if target == "nowhere":
        assert (found == 99).all()
    else:
        used = np.einsum("ai,kcij,bj->abkc", G, weights, G)
        tiles = mapped(B.T, np.einsum("ktabn,abkc->ctabn", wished, used))
        overlapped = np.zeros(images.shape)
        overlapped[:, :, :8] += tiles[:, 0]
        overlapped[:, :, 4:] += tiles[:, 1]
        if target == "masked":
            overlapped[images <= 0] = 0
        assert_close(found, overlapped + 99 * (target == "added"))


@pytest.mark.parametrize("threads", [1, 3])
def test_weights_get_the_sum_of_all_threads(threads: int) -> None:
    used = FILTERS * CHANNELS
    sums = normal(threads, TAPS * TAPS, used)
    firsts = [*range(0, used - LANES, LANES), used - LANES]
    taps = aligned_zeros((threads, len(firsts), TAPS * TAPS, LANES))
    for group, first in enumerate(firsts):
        taps[:, group] = sums[..., first : first + LANES]
    out = np.full((FILTERS + 1, CHANNELS, TAPS, TAPS), 99, np.float32)
    kernels.write_weights(taps, out[:FILTERS])
    assert_close(out[:FILTERS].reshape(used, -1), sums.sum(axis=0, dtype=np.float64).T)
    assert (out[FILTERS] == 99).all()


def test_points_are_the_squares_of_the_transform() -> None:
    assert (SQUARE, kernels.AREA) == (64, 25)
    assert_array_equal([A.shape, G.shape, B.shape], [(4, 8), (8, 5), (8, 8)])
