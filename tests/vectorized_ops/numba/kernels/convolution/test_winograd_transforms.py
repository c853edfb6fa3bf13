from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import TileFunction, call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution import winograd_transforms as tiles
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, PAST, RELU
from vectorized_ops.winograd import WinogradTransform, winograd_transform

UNTOUCHED = 77
SIZES = [(2, 3), (4, 3), (2, 5), (4, 5)]
"""F(m x m, r x r) as (m, r)."""

ENDS = [(m, r, a, b) for m, r in SIZES for a, b in ((m, m), (1, m), (m, m - 1), (m // 2, m // 2))]
"""Sizes, and pixels of the last tile, down and across."""

HEIGHT, WIDTH = 5, 7


@kernel
def read_inputs(tile: int, out: Any, point: int, images: Any, y: int, x: int, zeros: Any) -> None:
    call_tile(
        tile, out, 5, point, images, LANES, y, x, HEIGHT, WIDTH, 7 * LANES, zeros, 2, 3 * LANES,
        4 * LANES, 2,
    )  # fmt: skip


@kernel
def write_outputs(
    tile: int, points: Any, point: int, bias: Any, out: Any, mask: Any, mode: int
) -> None:
    call_tile(
        tile, points, 16, point, bias, out, 16, 8 * WIDTH * LANES, 8 * LANES, mask, 2,
        8 * (WIDTH + 1) * LANES, 8 * LANES, mode, 2, 3 * LANES, 4 * LANES, 2,
    )  # fmt: skip


@kernel
def read_weights(tile: int, out: Any, point: int, weights: Any) -> None:
    call_tile(tile, out, 5, point, weights, LANES)


@kernel
def read_gradient(tile: int, out: Any, point: int, pixels: Any, pixel: int) -> None:
    call_tile(tile, out, 5, point, pixels, pixel, 2, 2)


@kernel
def write_taps(tile: int, weights: Any, sums: Any, point: int) -> None:
    call_tile(tile, weights, sums, 3, point)


def maps(outputs: int, taps: int) -> list[np.ndarray]:
    """A^T, G and B^T of the transform."""
    made = winograd_transform(outputs, taps)
    matrices = made.output_map, made.weights_map, made.input_map
    return [np.array(matrix, np.float64) for matrix in matrices]


class Kind(NamedTuple):
    """What is expected of a kind of tile: the maps down and across, and its points' places."""

    down: WinogradTransform
    across: WinogradTransform

    def mapped(self, name: str, values: np.ndarray, turned: bool = False) -> np.ndarray:
        """The map of that name, or its adjoint, on both sides of `values`, in float64."""
        matrices = [np.array(getattr(made, name), np.float64) for made in (self.down, self.across)]
        left, right = (matrix.T if turned else matrix for matrix in matrices)
        return np.einsum("ai,ijl,bj->abl", left, values.astype(np.float64), right)

    def address(self, function: TileFunction, outputs: int, taps: int, *more: int) -> int:
        return function.address(outputs, taps, self.down.outputs, self.across.outputs, *more)

    @property
    def places(self) -> tuple[np.ndarray, ...]:
        return np.ix_(self.down.numbers, self.across.numbers)


def kinds(outputs: int, taps: int, lines: int, columns: int) -> list[Kind]:
    return [
        Kind(winograd_transform(outputs, taps, down), winograd_transform(outputs, taps, across))
        for down in {outputs, lines}
        for across in {outputs, columns}
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
        tile = kind.address(tiles.SQUARE_INPUT, outputs, taps)
        read_inputs(tile, out, point, image.reshape(-1), *corner, zeros)
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
    # Two filters of two vectors each, between others.
    points, bias = whole_numbers(size, size, 6 * LANES), np.array([-2, 99], np.float32)
    mask = whole_numbers(2 + HEIGHT * (WIDTH + 1) * 8 * LANES)
    mask[2:5] = np.nan, 0, -0.0
    flat = np.concatenate([np.full(16, 9), points.reshape(-1)]).astype(np.float32)
    for kind in kinds(outputs, taps, lines, columns):
        out = aligned_zeros((16 + HEIGHT * WIDTH * 8 * LANES,))
        out[...] = expected = whole_numbers(len(out))
        tile = kind.address(tiles.SQUARE_OUTPUT, outputs, taps)
        write_outputs(tile, flat, 6 * LANES, bias, out, mask, mode)
        shape = kind.down.outputs, kind.across.outputs
        taken = points[kind.places].reshape(-1, kind.across.points, 2, 3 * LANES)[..., : 2 * LANES]
        values = kind.mapped("output_map", taken.reshape(*taken.shape[:2], -1))
        values = values.reshape(*shape, 2, 2 * LANES) + bias[:, None]
        written = expected[16:].reshape(HEIGHT, WIDTH, 2, 4 * LANES)
        target = written[: shape[0], : shape[1], :, : 2 * LANES]
        if mode & ADD:
            values += target
        if mode & RELU:
            values = np.maximum(values, 0)
        if mode & MASK:
            masks = mask[2:].reshape(HEIGHT, WIDTH + 1, 2, 4 * LANES)
            values[masks[: shape[0], : shape[1], :, : 2 * LANES] <= 0] = 0
        target[...] = values
        assert_array_equal(out, expected)


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_weights_become_points(outputs: int, taps: int) -> None:
    size, weights = outputs + taps - 1, whole_numbers(taps, taps, LANES)
    out = np.full((size * size, 3 * LANES), UNTOUCHED, np.float32)
    behind = np.concatenate([np.full(LANES, np.nan, np.float32), weights.reshape(-1)])
    read_weights(tiles.SQUARE_WEIGHTS.address(outputs, taps), out, 3 * LANES, behind)
    expected = mapped(maps(outputs, taps)[1], weights).reshape(-1, LANES)
    assert_allclose(out[:, 5 : 5 + LANES], expected, rtol=0, atol=1e-6)
    assert (np.delete(out, range(5, 5 + LANES), axis=1) == UNTOUCHED).all()


@pytest.mark.parametrize("pairs", [0, 1])
@pytest.mark.parametrize(("outputs", "taps", "lines", "columns"), ENDS)
def test_gradient_of_outputs_becomes_points_by_the_adjoint(
    outputs: int, taps: int, lines: int, columns: int, pairs: int
) -> None:
    size, pixels = outputs + taps - 1, whole_numbers(outputs, outputs, (3 << pairs) * LANES)
    for kind in kinds(outputs, taps, lines, columns):
        out = np.full((size, size, 4 * LANES), UNTOUCHED, np.float32)
        tile = kind.address(tiles.SQUARE_GRADIENT, outputs, taps, pairs)
        read_gradient(tile, out, 4 * LANES, pixels, (3 << pairs) * LANES)
        seen = pixels[: kind.down.outputs, : kind.across.outputs, : (2 << pairs) * LANES]
        expected = np.full_like(out, UNTOUCHED)
        wanted = kind.mapped("output_map", seen, turned=True).astype(np.float32)
        if pairs:  # of neighbouring rows of two vectors
            rows = wanted.reshape(*wanted.shape[:2], 2, 2 * LANES)
            wanted = paired(rows[..., 0, :], rows[..., 1, :])
        expected[..., 5 : 5 + 2 * LANES][kind.places] = wanted.reshape(*wanted.shape[:2], -1)
        assert_array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_points_become_gradients_of_weights_by_the_adjoint(outputs: int, taps: int) -> None:
    size = outputs + taps - 1
    sums = whole_numbers(size, size, 2 * LANES)
    weights = np.full((taps * taps + 1, LANES), UNTOUCHED, np.float32)
    flat = np.concatenate([[9, 9, 9], sums.reshape(-1)]).astype(np.float32)
    write_taps(tiles.SQUARE_TAPS.address(outputs, taps), weights, flat, 2 * LANES)
    expected = mapped(maps(outputs, taps)[1].T, sums[..., :LANES]).reshape(-1, LANES)
    assert_allclose(weights[:-1], expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert (weights[-1] == UNTOUCHED).all()
