from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba import _square_tiles as tiles
from vectorized_ops.numba._correlation_tiles import ADD, MASK, PAST, RELU
from vectorized_ops.numba._ends import LOW, NARROW
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba.compiler import kernel
from vectorized_ops.winograd import WinogradTransform, winograd_transform

UNTOUCHED = 77
SIZES = [(2, 3), (4, 3), (2, 5), (4, 5)]
"""F(m x m, r x r) as (m, r)."""

ENDS = [(m, r, a, b) for m, r in SIZES for a, b in ((m, m), (1, m), (m, m - 1), (m // 2, m // 2))]
"""Sizes, and pixels of the last tile, down and across."""

HEIGHT, WIDTH = 5, 7


@functools.cache
def kernels(outputs: int, taps: int, lines: int, columns: int) -> dict[str, Any]:
    """Kernels that run one tile each; two vectors of each pixel or point where there may be."""

    @kernel
    def read_inputs(
        out: Any, point: int, images: Any, y: int, x: int, zeros: Any, kind: int
    ) -> None:
        tiles.square_input_tile(
            outputs, taps, lines, columns, kind, out, 5, point, images, LANES, y, x, HEIGHT, WIDTH,
            7 * LANES, zeros, 2, 3 * LANES, 4 * LANES, 2,
        )  # fmt: skip

    @kernel
    def write_outputs(
        points: Any, point: int, bias: Any, out: Any, mask: Any, mode: int, kind: int
    ) -> None:
        tiles.square_output_tile(
            outputs, taps, lines, columns, kind, points, 16, point, bias, 1, out, 16, WIDTH * LANES,
            LANES, mask, 2, (WIDTH + 1) * LANES, LANES, mode,
        )  # fmt: skip

    @kernel
    def read_weights(out: Any, point: int, weights: Any) -> None:
        tiles.square_weights_tile(outputs, taps, out, 5, point, weights)

    @kernel
    def read_gradient(out: Any, point: int, pixels: Any, pixel: int, kind: int) -> None:
        tiles.square_gradient_tile(
            outputs, taps, lines, columns, kind, out, 5, point, pixels, pixel, 2
        )

    @kernel
    def write_taps(weights: Any, sums: Any, point: int) -> None:
        tiles.square_taps_tile(outputs, taps, weights, sums, 3, point)

    return {
        "input": read_inputs,
        "output": write_outputs,
        "weights": read_weights,
        "gradient": read_gradient,
        "taps": write_taps,
    }


def maps(outputs: int, taps: int) -> list[np.ndarray]:
    """A^T, G and B^T of the transform."""
    made = winograd_transform(outputs, taps)
    matrices = made.output_map, made.weights_map, made.input_map
    return [np.array(matrix, np.float64) for matrix in matrices]


class Kind(NamedTuple):
    """What is expected of a kind of tile: the maps down and across, and its points' places."""

    number: int
    down: WinogradTransform
    across: WinogradTransform

    def mapped(self, name: str, values: np.ndarray, turned: bool = False) -> np.ndarray:
        """The map of that name, or its adjoint, on both sides of `values`, in float64."""
        matrices = [np.array(getattr(made, name), np.float64) for made in (self.down, self.across)]
        left, right = (matrix.T if turned else matrix for matrix in matrices)
        return np.einsum("ai,ijl,bj->abl", left, values.astype(np.float64), right)

    @property
    def places(self) -> tuple[np.ndarray, ...]:
        return np.ix_(self.down.numbers, self.across.numbers)


def kinds(outputs: int, taps: int, lines: int, columns: int) -> list[Kind]:
    return [
        Kind(
            low + narrow,
            winograd_transform(outputs, taps, down),
            winograd_transform(outputs, taps, across),
        )
        for low, down in {0: outputs, LOW * (lines < outputs): lines}.items()
        for narrow, across in {0: outputs, NARROW * (columns < outputs): columns}.items()
    ]


def mapped(matrix: np.ndarray, square: np.ndarray) -> np.ndarray:
    """matrix @ square @ matrix^T in every lane, in float64."""
    return np.einsum("ai,ijl,bj->abl", matrix, square.astype(np.float64), matrix)


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize(("outputs", "taps", "lines", "columns"), ENDS)
@pytest.mark.parametrize("corner", [(0, 0), (-1, -2), (3, 4), (-2, 3), (9, 9), (-9, 0)])
def test_inputs_outside_the_image_are_zeros_whatever_lies_there(
    outputs: int, taps: int, lines: int, columns: int, corner: tuple[int, int]
) -> None:
    size = outputs + taps - 1
    # Two channels of three vectors each, of which the last two are used, and a vector more.
    memory = np.full((3 * HEIGHT * WIDTH, 7 * LANES), np.nan, np.float32)
    image = memory[HEIGHT * WIDTH : 2 * HEIGHT * WIDTH].reshape(HEIGHT, WIDTH, 7 * LANES)
    used = image[..., : 6 * LANES].reshape(HEIGHT, WIDTH, 2, 3 * LANES)[..., LANES:]
    used[...] = whole_numbers(HEIGHT, WIDTH, 2, 2 * LANES)
    bordered = np.pad(used.reshape(HEIGHT, WIDTH, -1), ((20, 20), (20, 20), (0, 0)))
    y, x = (20 + place for place in corner)
    point = 9 * LANES
    zeros = np.zeros(6 * LANES, np.float32)
    for kind in kinds(outputs, taps, lines, columns):
        out = np.full(5 + size * size * point, UNTOUCHED, np.float32)
        run = kernels(outputs, taps, lines, columns)["input"]
        run(out, point, image.reshape(-1), *corner, zeros, kind.number)
        expected = np.full_like(out, UNTOUCHED)
        seen = bordered[y : y + kind.down.points, x : x + kind.across.points]
        wanted = kind.mapped("input_map", seen)
        points = expected[5:].reshape(size, size, point)[..., : 8 * LANES]
        rows = points.reshape(size, size, 2, 4 * LANES)[..., : 2 * LANES]
        rows[kind.places] = wanted.reshape(*wanted.shape[:2], 2, 2 * LANES)
        assert_array_equal(out, expected)


@pytest.mark.parametrize(("outputs", "taps", "lines", "columns"), ENDS)
@pytest.mark.parametrize("mode", [0, RELU, PAST, PAST | RELU, ADD, MASK, ADD | MASK])
def test_outputs_that_exist_are_written_and_nothing_else(
    outputs: int, taps: int, lines: int, columns: int, mode: int
) -> None:
    size = outputs + taps - 1
    points, bias = whole_numbers(size, size, 2 * LANES), np.array([99, -2], np.float32)
    mask = whole_numbers(2 + 40 * LANES)
    mask[2:5] = np.nan, 0, -0.0
    flat = np.concatenate([np.full(16, 9), points.reshape(-1)]).astype(np.float32)
    for kind in kinds(outputs, taps, lines, columns):
        out = aligned_zeros((16 + HEIGHT * WIDTH * LANES,))
        out[...] = expected = whole_numbers(len(out))
        run = kernels(outputs, taps, lines, columns)["output"]
        run(flat, 2 * LANES, bias, out, mask, mode, kind.number)
        values = kind.mapped("output_map", points[kind.places][..., :LANES]) - 2
        for i, j in np.ndindex(kind.down.outputs, kind.across.outputs):
            target = expected[16 + (i * WIDTH + j) * LANES :][:LANES]
            value = target + values[i, j] if mode & ADD else values[i, j]
            if mode & RELU:
                value = np.maximum(value, 0)
            if mode & MASK:
                value = np.where(mask[2 + (i * (WIDTH + 1) + j) * LANES :][:LANES] <= 0, 0, value)
            target[...] = value
        assert_array_equal(out, expected)


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_weights_become_points(outputs: int, taps: int) -> None:
    size, weights = outputs + taps - 1, whole_numbers(taps, taps, LANES)
    out = np.full((size * size, 3 * LANES), UNTOUCHED, np.float32)
    kernels(outputs, taps, outputs, outputs)["weights"](out, 3 * LANES, weights)
    expected = mapped(maps(outputs, taps)[1], weights).reshape(-1, LANES)
    assert_allclose(out[:, 5 : 5 + LANES], expected, rtol=0, atol=1e-6)
    assert (np.delete(out, range(5, 5 + LANES), axis=1) == UNTOUCHED).all()


@pytest.mark.parametrize(("outputs", "taps", "lines", "columns"), ENDS)
def test_gradient_of_outputs_becomes_points_by_the_adjoint(
    outputs: int, taps: int, lines: int, columns: int
) -> None:
    size, pixels = outputs + taps - 1, whole_numbers(outputs, outputs, 3 * LANES)
    for kind in kinds(outputs, taps, lines, columns):
        out = np.full((size, size, 4 * LANES), UNTOUCHED, np.float32)
        run = kernels(outputs, taps, lines, columns)["gradient"]
        run(out, 4 * LANES, pixels, 3 * LANES, kind.number)
        seen = pixels[: kind.down.outputs, : kind.across.outputs, : 2 * LANES]
        expected = np.full_like(out, UNTOUCHED)
        expected[..., 5 : 5 + 2 * LANES][kind.places] = kind.mapped("output_map", seen, turned=True)
        assert_array_equal(out, expected)


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_points_become_gradients_of_weights_by_the_adjoint(outputs: int, taps: int) -> None:
    size = outputs + taps - 1
    sums = whole_numbers(size, size, 2 * LANES)
    weights = np.full((taps * taps + 1, LANES), UNTOUCHED, np.float32)
    flat = np.concatenate([[9, 9, 9], sums.reshape(-1)]).astype(np.float32)
    kernels(outputs, taps, outputs, outputs)["taps"](weights, flat, 2 * LANES)
    expected = mapped(maps(outputs, taps)[1].T, sums[..., :LANES]).reshape(-1, LANES)
    assert_allclose(weights[:-1], expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert (weights[-1] == UNTOUCHED).all()
