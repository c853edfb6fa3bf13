from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution import winograd_pooled_transforms as tiles
from vectorized_ops.numba.kernels.convolution.winograd_pooled_transforms import (
    OUTPUTS,
    POINTS,
    TAPS,
    TRANSFORM,
)
from vectorized_ops.numba.kernels.convolution.winograd_transforms import (
    square_taps_tile,
    square_weights_tile,
)

UNTOUCHED = 77
WIDTH = 11
"""Pixels between the lines of the images, and vectors between two points."""

A, G, B = (
    np.array(matrix, np.float64)
    for matrix in (TRANSFORM.output_map, TRANSFORM.weights_map, TRANSFORM.input_map)
)
"""A^T (4, 8), G (8, 5) and B^T (8, 8)."""


@kernel
def input_points(out: Any, images: Any) -> None:
    tiles.input_tile(out, LANES, WIDTH * LANES, images, 2 * LANES, WIDTH * LANES, LANES)


@kernel
def add_input_gradient(images: Any, points: Any) -> None:
    tiles.input_gradient_tile(images, 2 * LANES, WIDTH * LANES, LANES, points, LANES, WIDTH * LANES)


@kernel
def kernels_points(out: Any, weights: Any, places: Any) -> None:
    tiles.weights_points_tile(out, LANES, WIDTH * LANES, weights, places, 1)


@kernel
def kernels_of_taps(out: Any, taps: Any) -> None:
    tiles.kernels_tile(out, 3, taps, LANES)


@kernel
def weights_points(out: Any, taps: Any) -> None:
    square_weights_tile(OUTPUTS, TAPS, out, LANES, WIDTH * LANES, taps, 0)


@kernel
def weights_gradient(taps: Any, points: Any) -> None:
    square_taps_tile(OUTPUTS, TAPS, taps, points, LANES, WIDTH * LANES)


@kernel
def pooled_outputs(out: Any, which: Any, bias: Any, points: Any) -> None:
    tiles.pooled_output_tile(
        out, 2 * LANES, WIDTH * LANES, LANES, which, 3 * LANES, (WIDTH + 2) * LANES, 2 * LANES,
        bias, 1, points, LANES, WIDTH * LANES,
    )  # fmt: skip


@kernel
def pooled_gradient(out: Any, gradient: Any, which: Any) -> None:
    tiles.pooled_gradient_tile(
        gradient, 2 * LANES, WIDTH * LANES, LANES,
        which, 3 * LANES, (WIDTH + 2) * LANES, 2 * LANES, out, LANES, WIDTH * LANES,
    )  # fmt: skip


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal((*shape, LANES)).astype(np.float32)


def mapped(matrix: np.ndarray, square: np.ndarray) -> np.ndarray:
    """matrix @ square @ matrix^T in every lane, in float64."""
    return np.einsum("ai,ijl,bj->abl", matrix, square.astype(np.float64), matrix)


def of_points(array: np.ndarray) -> np.ndarray:
    """The points that lie in column 1 of an array (64, WIDTH, LANES), as a square."""
    return array[:, 1].reshape(POINTS, POINTS, LANES)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def untouched(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.full((*shape, LANES), UNTOUCHED, dtype)


def test_points_of_images() -> None:
    images, out = normal(POINTS, WIDTH), untouched(POINTS**2, WIDTH)
    input_points(out, images)
    assert_close(of_points(out), mapped(B, images[:, 2 : 2 + POINTS]))
    assert (np.delete(out, 1, axis=1) == UNTOUCHED).all()


def test_gradient_of_images_is_added() -> None:
    points, images = normal(POINTS**2, WIDTH), normal(POINTS, WIDTH)
    expected = images.astype(np.float64)
    expected[:, 2 : 2 + POINTS] += mapped(B.T, of_points(points))
    add_input_gradient(images, points)
    assert_close(images, expected)


def test_points_of_weights() -> None:
    taps, out = normal(TAPS, TAPS), untouched(POINTS**2, WIDTH)
    weights_points(out, taps)
    assert_close(of_points(out), mapped(G, taps))
    assert (np.delete(out, 1, axis=1) == UNTOUCHED).all()


def test_points_of_kernels_anywhere() -> None:
    values = np.random.default_rng(0).standard_normal(7 + (LANES + 2) * TAPS**2).astype(np.float32)
    places = 7 + np.random.default_rng(1).permutation(LANES + 1) * TAPS**2
    out = untouched(POINTS**2, WIDTH)
    kernels_points(out, values, places)
    taken = np.stack([values[place : place + TAPS**2] for place in places[1:]], axis=-1)
    assert_close(of_points(out), mapped(G, taken.reshape(TAPS, TAPS, LANES)))
    assert (np.delete(out, 1, axis=1) == UNTOUCHED).all()


def test_kernels_lie_one_behind_the_other() -> None:
    taps, out = normal(TAPS**2 + 1), np.full(3 + LANES * TAPS**2 + 5, UNTOUCHED, np.float32)
    kernels_of_taps(out, taps)
    assert_array_equal(out[3:-5].reshape(LANES, -1), taps[1:].T)
    assert (out[:3] == UNTOUCHED).all()
    assert (out[-5:] == UNTOUCHED).all()


def test_gradient_of_weights() -> None:
    points, taps = normal(POINTS**2, WIDTH), untouched(TAPS + 1, TAPS)
    weights_gradient(taps, points)
    assert_close(taps[:TAPS], mapped(G.T, of_points(points)))
    assert (taps[TAPS] == UNTOUCHED).all()


def test_outputs_are_pooled_and_biased() -> None:
    points, bias = normal(POINTS**2, WIDTH), np.array([99, 5], np.float32)
    out, which = untouched(3, WIDTH), untouched(3, WIDTH + 2, dtype=np.uint8)
    pooled_outputs(out, which, bias, points)
    outputs = mapped(A, of_points(points))
    windows = outputs.reshape(2, 2, 2, 2, LANES).transpose(0, 2, 1, 3, 4).reshape(2, 2, 4, LANES)
    assert_close(out[:2, 2:4], windows.max(axis=2) + 5)
    assert_array_equal(which[:2, 3:7:2], windows.argmax(axis=2))
    for array, columns in ((out, [2, 3]), (which, [3, 5])):
        assert (np.delete(array[:2], columns, axis=1) == UNTOUCHED).all()
        assert (array[2] == UNTOUCHED).all()


def test_gradient_is_spread_to_the_winners_before_it_is_mapped() -> None:
    gradient, out = normal(2, WIDTH), untouched(POINTS**2, WIDTH)
    which = np.random.default_rng(1).integers(0, 4, (2, WIDTH + 2, LANES)).astype(np.uint8)
    pooled_gradient(out, gradient, which)
    spread = np.zeros((OUTPUTS, OUTPUTS, LANES))
    for i, j, lane in np.ndindex(2, 2, LANES):
        y, x = divmod(int(which[i, 3 + 2 * j, lane]), 2)
        spread[2 * i + y, 2 * j + x, lane] = gradient[i, 2 + j, lane]
    assert_close(of_points(out), mapped(A.T, spread))
    assert (np.delete(out, 1, axis=1) == UNTOUCHED).all()
