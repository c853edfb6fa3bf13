# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Register tiles: the inner loops of pooled convolutions, as Numba intrinsics.

Each holds a block of results in vector registers during the loop over the reduction. One lane is
one image of the batch (the memory order of `vectorized_ops.layout`), so that no channel count and
no map size leaves lanes empty, and a weight is one broadcast.

Strides, indices and offsets count float32 elements. Tiles check nothing: bounds are the caller's
responsibility. `rows` and `columns` are compile-time constants, rows * columns accumulators;
`steps` is at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types

from vectorized_ops.numba.emit.lanes import AVX512, LANES, Lanes, Value, tile

ACCUMULATORS = 24 if AVX512 else 12
"""Vector registers given to results; the others hold the operands."""

COLUMN_ROWS = range(25 if AVX512 else 12, 0, -1)
"""Heights of tiles one vector wide, of Winograd's points. The last of a matrix overlaps another."""

DOT_ROWS = 4
DOT_COLUMNS = LANES // DOT_ROWS


def cheapest_rows(rows: int, heights: Sequence[int]) -> int:
    """Return the height that covers `rows` with the least work; a tile costs two rows more."""
    fitting = [height for height in heights if height <= rows] or [min(heights)]
    return min(fitting, key=lambda height: -(-rows // height) * (height + 2))


def reduction(
    lanes: Lanes,
    rows: int,
    columns: list[Value],
    weights: Value,
    row_stride: Value,
    step_stride: Value,
    offsets: Value,
    steps: Value,
) -> list[Value]:
    """Emit acc[i][j] = sum_t weights[i*row_stride + t*step_stride] * columns[j][offsets[t]]."""
    row_offsets = [lanes.product(row_stride, i) for i in range(rows)]

    def body(step: Value, values: list[Value]) -> list[Value]:
        offset = lanes.load_integer(lanes.at(offsets, step))
        inputs = [lanes.load(lanes.at(column, offset)) for column in columns]
        at_step = lanes.at(weights, lanes.product(step, step_stride))
        results = []
        for i in range(rows):
            weight = lanes.broadcast(lanes.at(at_step, row_offsets[i]))
            for j, column in enumerate(inputs):
                results.append(lanes.fma(weight, column, values[i * len(inputs) + j]))
        return results

    return lanes.loop(steps, [lanes.constant(0.0)] * (rows * len(columns)), body)


@tile
def product_tile(
    typingctx: Any,
    rows: Any,
    columns: Any,
    out: Any,
    out_index: Any,
    out_row: Any,
    weights: Any,
    weights_index: Any,
    weights_row: Any,
    weights_step: Any,
    inputs: Any,
    inputs_index: Any,
    offsets: Any,
    steps: Any,
) -> Any:
    """Write a tile of `rows` x `columns` vectors of a matrix product with broadcast weights.

    out[out_index + i*out_row + j*LANES + lane] = sum over t < steps of
    weights[weights_index + i*weights_row + t*weights_step]
    * inputs[inputs_index + offsets[t] + j*LANES + lane].
    """
    number_rows, number_columns = rows.literal_value, columns.literal_value
    signature = types.void(
        rows, columns, out, types.int64, types.int64, weights, types.int64, types.int64,
        types.int64, inputs, types.int64, offsets, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        results = reduction(
            lanes,
            number_rows,
            [lanes.pointer(9, args[9], args[10], j * LANES) for j in range(number_columns)],
            lanes.pointer(5, args[5], args[6]),
            args[7],
            args[8],
            lanes.pointer(11, args[11]),
            args[12],
        )
        target = lanes.pointer(2, args[2], args[3])
        for number, value in enumerate(results):
            i, j = divmod(number, number_columns)
            lanes.store(value, lanes.at(target, lanes.product(args[4], i), j * LANES))
        return context.get_dummy_value()

    return signature, generate


def sum_lanes(lanes: Lanes, vectors: list[Value]) -> Value:
    """Return one vector whose lane i is the sum of the lanes of vectors[i] (LANES vectors).

    A butterfly: each level adds two halves of two vectors, LANES - 1 additions in all, where
    summing them one by one would take LANES * log2(LANES).
    """
    width = LANES // 2
    while width >= 1:
        half = len(vectors) // 2
        low = [lane if not lane & width else LANES + lane - width for lane in range(LANES)]
        high = [lane + width if not lane & width else LANES + lane for lane in range(LANES)]
        vectors = [
            lanes.add(
                lanes.shuffle(vectors[i], vectors[i + half], low),
                lanes.shuffle(vectors[i], vectors[i + half], high),
            )
            for i in range(half)
        ]
        width //= 2
    return vectors[0]


@tile
def dot_tile(
    typingctx: Any,
    out: Any,
    out_index: Any,
    out_row: Any,
    left: Any,
    left_index: Any,
    left_row: Any,
    left_offsets: Any,
    right: Any,
    right_index: Any,
    right_rows: Any,
    right_rows_index: Any,
    right_offsets: Any,
    steps: Any,
) -> Any:
    """Write DOT_ROWS x DOT_COLUMNS scalar products, each over `steps` vectors.

    out[out_index + i*out_row + j] = sum over t and lanes of
    left[left_index + i*left_row + left_offsets[t] + lane]
    * right[right_index + right_rows[right_rows_index + j] + right_offsets[t] + lane].
    """
    signature = types.void(
        out, types.int64, types.int64, left, types.int64, types.int64, left_offsets, right,
        types.int64, right_rows, types.int64, right_offsets, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        lefts = [
            lanes.pointer(3, args[3], args[4], lanes.product(args[5], i)) for i in range(DOT_ROWS)
        ]
        rights = [
            lanes.pointer(
                7, args[7], args[8], lanes.load_integer(lanes.pointer(9, args[9], args[10], j))
            )
            for j in range(DOT_COLUMNS)
        ]
        left_table, right_table = lanes.pointer(6, args[6]), lanes.pointer(11, args[11])

        def body(step: Value, values: list[Value]) -> list[Value]:
            left_offset = lanes.load_integer(lanes.at(left_table, step))
            right_offset = lanes.load_integer(lanes.at(right_table, step))
            columns = [lanes.load(lanes.at(right, right_offset)) for right in rights]
            results = []
            for i in range(DOT_ROWS):
                row = lanes.load(lanes.at(lefts[i], left_offset))
                for j in range(DOT_COLUMNS):
                    results.append(lanes.fma(row, columns[j], values[i * DOT_COLUMNS + j]))
            return results

        results = lanes.loop(args[12], [lanes.constant(0.0)] * LANES, body)
        sums = sum_lanes(lanes, results)
        for i in range(DOT_ROWS):
            order = range(i * DOT_COLUMNS, (i + 1) * DOT_COLUMNS)
            part = lanes.shuffle(sums, sums, list(order))
            target = lanes.pointer(0, args[0], args[1], lanes.product(args[2], i))
            lanes.store_part(part, target)
        return context.get_dummy_value()

    return signature, generate
