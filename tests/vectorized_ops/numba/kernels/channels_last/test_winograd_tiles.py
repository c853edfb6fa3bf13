from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.channels_last.winograd_tiles import (
    CHANNEL_GRADIENT,
    CHANNEL_OUTPUT,
)
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, PAST, RELU
from vectorized_ops.winograd import winograd_transform

UNTOUCHED = 77
HEIGHT, WIDTH = 5, 7

KINDS = [(2, 3, 2, 2), (4, 3, 4, 4), (4, 3, 3, 1), (4, 5, 2, 4)]
"""F(m x m, r x r) as (m, r), and the pixels of a tile, down and across."""

for_each_kind = pytest.mark.parametrize(("outputs", "taps", "lines", "columns"), KINDS)


@kernel
def write_outputs(
    tile: int, points: Any, point: int, bias: Any, out: Any, mask: Any, mode: int
) -> None:
    call_tile(
        tile, points, 16, point, bias, out, 16, 3 * WIDTH * LANES, 3 * LANES, mask, 2,
        3 * (WIDTH + 1) * LANES, 3 * LANES, mode, 2,
    )  # fmt: skip


@kernel
def read_gradient(tile: int, out: Any, point: int, gradient: Any) -> None:
    call_tile(tile, out, 5, point, gradient, 3, 3 * WIDTH * LANES, 3 * LANES, 2)


class Kind(NamedTuple):
    """What is expected of a kind of tile."""

    outputs: int
    taps: int
    lines: int
    columns: int

    @property
    def side(self) -> int:
        return self.outputs + self.taps - 1

    @property
    def places(self) -> tuple[np.ndarray, ...]:
        down, across = (
            winograd_transform(self.outputs, self.taps, it).numbers
            for it in (self.lines, self.columns)
        )
        return np.ix_(down, across)

    def mapped(self, values: np.ndarray, turned: bool = False) -> np.ndarray:
        """The output's map, or its adjoint, on both sides of `values`, in float64."""
        left, right = (
            np.array(winograd_transform(self.outputs, self.taps, it).output_map, np.float64)
            for it in (self.lines, self.columns)
        )
        if turned:
            left, right = left.T, right.T
        return np.einsum("ai,ijl,bj->abl", left, values.astype(np.float64), right)


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


@for_each_kind
@pytest.mark.parametrize("mode", [0, RELU, PAST, PAST | RELU, ADD, MASK, ADD | MASK])
def test_outputs_that_exist_are_written_and_nothing_else(
    outputs: int, taps: int, lines: int, columns: int, mode: int
) -> None:
    kind = Kind(outputs, taps, lines, columns)
    points, bias = whole_numbers(kind.side, kind.side, 3 * LANES), whole_numbers(2 * LANES)
    mask = whole_numbers(2 + HEIGHT * (WIDTH + 1) * 3 * LANES)
    mask[2:5] = np.nan, 0, -0.0
    out = aligned_zeros((16 + HEIGHT * WIDTH * 3 * LANES,))
    out[...] = expected = whole_numbers(len(out))
    flat = np.concatenate([np.full(16, 9), points.reshape(-1)]).astype(np.float32)
    write_outputs(CHANNEL_OUTPUT.address(*kind), flat, 3 * LANES, bias, out, mask, mode)
    values = kind.mapped(points[kind.places][..., : 2 * LANES]) + bias
    written = expected[16:].reshape(HEIGHT, WIDTH, 3 * LANES)
    target = written[:lines, :columns, : 2 * LANES]
    if mode & ADD:
        values += target
    if mode & RELU:
        values = np.maximum(values, 0)
    if mode & MASK:
        masks = mask[2:].reshape(HEIGHT, WIDTH + 1, 3 * LANES)
        values[masks[:lines, :columns, : 2 * LANES] <= 0] = 0
    target[...] = values
    assert_array_equal(out, expected)


@for_each_kind
def test_gradient_of_outputs_becomes_points_by_the_adjoint(
    outputs: int, taps: int, lines: int, columns: int
) -> None:
    kind = Kind(outputs, taps, lines, columns)
    gradient = whole_numbers(HEIGHT, WIDTH, 3 * LANES)
    flat = np.concatenate([np.full(3, np.nan), gradient.reshape(-1)]).astype(np.float32)
    out = np.full((kind.side, kind.side, 3 * LANES), UNTOUCHED, np.float32)
    read_gradient(CHANNEL_GRADIENT.address(*kind), out.reshape(-1), 3 * LANES, flat)
    expected = np.full_like(out, UNTOUCHED)
    seen = gradient[:lines, :columns, : 2 * LANES]
    expected[..., 5 : 5 + 2 * LANES][kind.places] = kind.mapped(seen, turned=True)
    assert_array_equal(out, expected)
