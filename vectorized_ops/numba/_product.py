"""Matrix products one vector wide, cut into register tiles: those of the points of Winograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vectorized_ops.numba._lanes import AVX512, LANES
from vectorized_ops.numba._tiles import product_tile
from vectorized_ops.numba.compiler import kernel

ROWS_A, ROWS_B, ROWS_C, ROWS_D = (25, 20, 16, 8) if AVX512 else (12, 10, 8, 4)
COLUMN_ROWS = (ROWS_A, ROWS_B, ROWS_C, ROWS_D, 1)
"""Heights of tiles. The last tile of a matrix overlaps the one before it."""


def cheapest_rows(rows: int, heights: Sequence[int]) -> int:
    """Return the height that covers `rows` with the least work; a tile costs two rows more."""
    fitting = [height for height in heights if height <= rows] or [min(heights)]
    return min(fitting, key=lambda height: -(-rows // height) * (height + 2))


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
