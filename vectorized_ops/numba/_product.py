"""Matrix products cut into register tiles, shared by dense layers, convolution and Winograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vectorized_ops.numba._lanes import AVX512, LANES
from vectorized_ops.numba._tiles import ACCUMULATORS, product_tile
from vectorized_ops.numba.compiler import kernel

ROWS_4, ROWS_2, ROWS_1 = ACCUMULATORS // 4, ACCUMULATORS // 2, ACCUMULATORS
ROWS_A, ROWS_B, ROWS_C, ROWS_D = (25, 20, 16, 8) if AVX512 else (12, 10, 8, 4)
COLUMN_ROWS = (ROWS_A, ROWS_B, ROWS_C, ROWS_D, 1)
"""Heights of tiles one vector wide. The last tile of a matrix overlaps the one before it."""


def cheapest_rows(rows: int, heights: Sequence[int]) -> int:
    """Return the height that covers `rows` with the least work; a tile costs two rows more."""
    fitting = [height for height in heights if height <= rows] or [min(heights)]
    return min(fitting, key=lambda height: -(-rows // height) * (height + 2))


@kernel
def product_rows(
    columns: int,
    first: int,
    last: int,
    out: Any,
    out_index: int,
    out_row: int,
    weights: Any,
    weights_index: int,
    weights_row: int,
    weights_step: int,
    inputs: Any,
    inputs_index: int,
    offsets: Any,
    steps: int,
) -> None:
    """Compute rows `first` to `last` of out = weights @ inputs, `columns` vectors wide.

    out[out_index + i*out_row + x] = sum over t < steps of
    weights[weights_index + i*weights_row + t*weights_step] * inputs[inputs_index + offsets[t] + x],
    x < columns * LANES. Arrays are flat in memory; indices and strides count elements.
    """
    column = 0
    while column < columns:
        width = 4 if columns - column >= 4 else (2 if columns - column >= 2 else 1)
        height = ROWS_4 if width == 4 else (ROWS_2 if width == 2 else ROWS_1)
        if last - first < height:
            height = 1
        row = first
        while row < last:
            row = min(row, last - height)
            target = out_index + row * out_row + column * LANES
            source = weights_index + row * weights_row
            begin = inputs_index + column * LANES
            if height == 1:
                for j in range(width):
                    product_tile(
                        1, 1, out, target + j * LANES, out_row, weights, source, weights_row,
                        weights_step, inputs, begin + j * LANES, offsets, steps,
                    )  # fmt: skip
            elif width == 4:
                product_tile(
                    ROWS_4, 4, out, target, out_row, weights, source, weights_row,
                    weights_step, inputs, begin, offsets, steps,
                )  # fmt: skip
            elif width == 2:
                product_tile(
                    ROWS_2, 2, out, target, out_row, weights, source, weights_row,
                    weights_step, inputs, begin, offsets, steps,
                )  # fmt: skip
            else:
                product_tile(
                    ROWS_1, 1, out, target, out_row, weights, source, weights_row,
                    weights_step, inputs, begin, offsets, steps,
                )  # fmt: skip
            row += height
        column += width


@kernel
def plane_sum(values: Any) -> Any:
    """Return the sum of all values of an array, added up in memory order in float32."""
    total = np.float32(0.0)
    for value in values.flat:
        total += value
    return total


@kernel
def product_column(
    height: int,
    rows: int,
    out: Any,
    out_index: int,
    weights: Any,
    weights_index: int,
    weights_step: int,
    inputs: Any,
    inputs_index: int,
    offsets: Any,
    steps: int,
) -> None:
    """Compute a product one vector wide whose weights lie with neighbouring rows side by side.

    out[out_index + i*LANES + x] = sum over t < steps of
    weights[weights_index + i + t*weights_step] * inputs[inputs_index + offsets[t] + x], i < rows,
    in tiles of `height`, one of COLUMN_ROWS and at most `rows`.
    """
    row = 0
    while row < rows:
        row = min(row, rows - height)
        target, source = out_index + row * LANES, weights_index + row
        if height == ROWS_A:
            product_tile(
                ROWS_A, 1, out, target, LANES, weights, source, 1, weights_step,
                inputs, inputs_index, offsets, steps,
            )  # fmt: skip
        elif height == ROWS_B:
            product_tile(
                ROWS_B, 1, out, target, LANES, weights, source, 1, weights_step,
                inputs, inputs_index, offsets, steps,
            )  # fmt: skip
        elif height == ROWS_C:
            product_tile(
                ROWS_C, 1, out, target, LANES, weights, source, 1, weights_step,
                inputs, inputs_index, offsets, steps,
            )  # fmt: skip
        elif height == ROWS_D:
            product_tile(
                ROWS_D, 1, out, target, LANES, weights, source, 1, weights_step,
                inputs, inputs_index, offsets, steps,
            )  # fmt: skip
        else:
            product_tile(
                1, 1, out, target, LANES, weights, source, 1, weights_step,
                inputs, inputs_index, offsets, steps,
            )  # fmt: skip
        row += height
