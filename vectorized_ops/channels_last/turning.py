"""Transposes matrices, for kernels and layers that want another axis to run fastest."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.channels_last.rows import flat_rows
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.row_tiles import transpose_tile

_LEAST_TILES = 64
"""Tiles that each thread has at least: fewer are quicker in one thread."""


def turn(matrices: AnyArray, out: AnyArray) -> None:
    """Write the transposes of matrices (M, R, C) float32 to `out` (M, C, R'), R' >= R.

    What is behind the R values of a row of `out` becomes zero. Rows of both may be slices of wider
    ones. Raises OperationError for other shapes, types and orders.
    """
    number, height, width = matrices.shape
    if out.shape[:2] != (number, width) or out.shape[2] < height:
        raise OperationError(
            f"matrices of shape {matrices.shape} were to be transposed to {out.shape}: expected "
            f"{(number, width)} and rows of at least {height}"
        )
    values, distance = flat_rows(matrices)
    target, out_distance = flat_rows(out)
    padded = out.shape[2]
    tiles = number * -(-padded // LANES) * -(-width // LANES)
    threads = max(1, min(numba.get_num_threads(), tiles // _LEAST_TILES))
    given = values, distance, height, width, target, out_distance, padded
    if threads > 1:
        _turn(*given, tiles, threads)
    else:  # to wake others takes longer
        _turn_tiles(*given, 0, tiles)


def turn_in(values: AnyArray, out: AnyArray) -> None:
    """Write vectors (N, I) in C order to `out` (N', I) whose images run fastest."""
    turn(values[None], out.T[None])


def turn_out(values: AnyArray, out: AnyArray) -> None:
    """Write vectors (N', I) whose images run fastest to `out` (N, I) in C order."""
    turn(values.T[None, :, : len(out)], out[None])


@parallel_kernel
def _turn(
    values: Any,
    distance: int,
    height: int,
    width: int,
    out: Any,
    out_distance: int,
    padded: int,
    tiles: int,
    threads: int,
) -> None:
    for thread in numba.prange(threads):
        _turn_tiles(
            values, distance, height, width, out, out_distance, padded,
            part(tiles, thread, threads), part(tiles, thread + 1, threads),
        )  # fmt: skip


@kernel
def _turn_tiles(
    values: Any,
    distance: int,
    height: int,
    width: int,
    out: Any,
    out_distance: int,
    padded: int,
    first: int,
    last: int,
) -> None:
    down, across = (padded + LANES - 1) // LANES, (width + LANES - 1) // LANES
    for tile in range(first, last):
        matrix, rest = tile // (across * down), tile % (across * down)
        row, column = rest % down * LANES, rest // down * LANES
        source = (matrix * height + row) * distance + column
        target = (matrix * width + column) * out_distance + row
        if row + LANES <= height and column + LANES <= width:
            transpose_tile(out, target, out_distance, values, source, distance)
        else:
            _turn_part(
                values, source, distance, min(height - row, LANES), out, target, out_distance,
                min(padded - row, LANES), min(width - column, LANES),
            )  # fmt: skip


@kernel
def _turn_part(
    values: Any,
    source: int,
    distance: int,
    height: int,
    out: Any,
    target: int,
    out_distance: int,
    padded: int,
    width: int,
) -> None:
    for i in range(width):
        for j in range(padded):
            value = values[source + j * distance + i] if j < height else np.float32(0.0)
            out[target + i * out_distance + j] = value
