# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Transposes LANES rows, and sums each of them, as Numba intrinsics.

Strides and indices count float32 elements. Bounds are the caller's responsibility.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from numba import types

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.bfloat16 import element
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.dot_tiles import sum_lanes

_INT = types.int64


@tile
def transpose_tile(
    typingctx: Any, out: Any, out_index: Any, out_row: Any,
    inputs: Any, inputs_index: Any, inputs_row: Any,
) -> Any:  # fmt: skip
    """Write the transpose of LANES rows of LANES floats.

    out[out_index + j*out_row + i] = inputs[inputs_index + i*inputs_row + j].
    """
    signature = types.void(out, _INT, _INT, inputs, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, target = lanes.pointer(3, args[3], args[4]), lanes.pointer(0, args[0], args[1])
        rows = [lanes.load(lanes.at(source, lanes.product(args[5], i))) for i in range(LANES)]
        for number, column in enumerate(transposed(lanes, rows)):
            lanes.store(column, lanes.at(target, lanes.product(args[2], number)))
        return context.get_dummy_value()

    return signature, generate


@tile
def transpose_rows_tile(
    typingctx: Any, out: Any, out_index: Any, out_row: Any, columns: Any,
    inputs: Any, inputs_index: Any, inputs_row: Any, rows: Any,
) -> Any:  # fmt: skip
    """Write the transpose of 1 to LANES rows, the first `columns` of LANES, a constant.

    out[out_index + j*out_row + i] = inputs[inputs_index + i*inputs_row + j] for i < rows. Whole
    vectors are read, and written in the order of j: what is behind the rows repeats the last.
    """
    signature = types.void(out, _INT, _INT, columns, inputs, _INT, _INT, _INT)
    width = columns.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, target = lanes.pointer(4, args[4], args[5]), lanes.pointer(0, args[0], args[1])
        last, rows = builder.sub(args[7], lanes.integer(1)), []
        for i in range(LANES):
            number = builder.select(
                builder.icmp_signed("<", last, lanes.integer(i)), last, lanes.integer(i)
            )
            rows.append(lanes.load(lanes.at(source, lanes.product(number, args[6]))))
        for number, column in enumerate(transposed(lanes, rows)[:width]):
            lanes.store(column, lanes.at(target, lanes.product(args[2], number)))
        return context.get_dummy_value()

    return signature, generate


TRANSPOSE_ROWS: Final = TileFunction(transpose_rows_tile, ("columns",))


@tile
def copy_tile(typingctx: Any, out: Any, out_index: Any, inputs: Any, inputs_index: Any) -> Any:
    """Write out[out_index + i] = inputs[inputs_index + i], i < LANES."""
    signature = types.void(out, _INT, inputs, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        value = lanes.load(lanes.pointer(2, args[2], args[3]))
        lanes.store(value, lanes.pointer(0, args[0], args[1]))
        return context.get_dummy_value()

    return signature, generate


@tile
def row_sums_tile(
    typingctx: Any, out: Any, out_index: Any,
    values: Any, index: Any, row: Any, pixel: Any, pixels: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write the sums of LANES rows of `vectors` vectors each, over `pixels` pixels.

    out[out_index + i] = sum over p < pixels, v < vectors and lanes of
    values[index + p*pixel + i*row + v*LANES + lane].
    """
    signature = types.void(out, _INT, values, _INT, _INT, _INT, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source = lanes.pointer(2, args[2], args[3])
        rows = [lanes.product(args[4], i) for i in range(LANES)]

        def at_pixel(step: Value, sums: list[Value]) -> list[Value]:
            here = lanes.at(source, lanes.product(step, args[5]))

            def at_vector(number: Value, sums: list[Value]) -> list[Value]:
                there = lanes.at(here, lanes.product(number, LANES))
                return [
                    lanes.add(value, lanes.load(lanes.at(there, row)))
                    for value, row in zip(sums, rows, strict=True)
                ]

            return lanes.loop(args[7], sums, at_vector)

        sums = lanes.loop(args[6], [lanes.constant(0.0)] * LANES, at_pixel)
        lanes.store(sum_lanes(lanes, sums), lanes.pointer(0, args[0], args[1]))
        return context.get_dummy_value()

    return signature, generate


@parallel_kernel
def row_sums(values: Any, pixel: int, pixels: int, number: int, out: Any) -> None:
    """Write the sum of each row of `number` floats over pixels, `pixel` floats apart.

    Flat values (pixels, at least len(out) * number); number is a multiple of LANES.
    """
    for group in numba.prange((len(out) + LANES - 1) // LANES):
        sum_group(values, group, pixel, pixels, number, out)


@kernel
def sum_group(values: Any, group: int, pixel: int, pixels: int, number: int, out: Any) -> None:
    """Write LANES of the sums of `row_sums`, those numbered from group * LANES on."""
    row = min(group * LANES, len(out) - LANES)  # rows of two groups get the same bits twice
    if row >= 0:
        row_sums_tile(out, row, values, row * number, number, pixel, pixels, number // LANES)
    else:
        for other in range(len(out)):
            total = np.float32(0.0)
            for p in range(pixels):
                for i in range(number):
                    total += element(values, p * pixel + other * number + i)
            out[other] = total


def transposed(lanes: Lanes, rows: list[Value]) -> list[Value]:
    """Return the columns of LANES vectors: a butterfly that swaps one bit of row and lane each."""
    width = 1
    while width < LANES:
        low = [lane if not lane & width else LANES + lane - width for lane in range(LANES)]
        high = [lane + width if not lane & width else LANES + lane for lane in range(LANES)]
        swapped = list(rows)
        for i in range(LANES):
            if not i & width:
                swapped[i] = lanes.shuffle(rows[i], rows[i + width], low)
                swapped[i + width] = lanes.shuffle(rows[i], rows[i + width], high)
        rows, width = swapped, width * 2
    return rows
