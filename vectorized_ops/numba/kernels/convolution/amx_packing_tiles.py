# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Packs weights as AMX's tiles of pairs, whole tiles at a time."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.amx import TILE
from vectorized_ops.numba.emit.bfloat16 import narrowed, unpacked
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.row_tiles import transposed

_INT = types.int64
_INT32 = ir.IntType(32)


@tile
def packing_tile(
    typingctx: Any, across: Any, apart: Any, out: Any, out_index: Any, weights: Any,
    weights_index: Any, filter_step: Any, channel_step: Any, filters: Any, steps: Any,
) -> Any:  # fmt: skip
    """Write `steps` tiles of the pairs of neighbouring channels of so many filters.

    out[out_index + (t*16 + f)*16 + p] is the pair of
    weights[weights_index + f*filter_step + (32*t + 2*p + i)*channel_step], i = 0 and 1. Vectors are
    read along the channels, or `across` the filters, which are 16 then. Unless weights are `apart`,
    the step of what vectors are read along is 1.
    """
    signature = types.void(across, apart, out, _INT, weights, _INT, _INT, _INT, _INT, _INT)
    by_filters, scattered = bool(across.literal_value), bool(apart.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(2, *args[2:4]), lanes.pointer(4, *args[4:6])
        filter_step, channel_step = args[6:8]

        def bits(place: Value) -> Value:
            if not scattered:
                return lanes.load_rounded(place)
            vector, step = lanes.constant(0.0), filter_step if by_filters else channel_step
            for lane in range(LANES):
                value = builder.load(lanes.at(place, lanes.product(step, lane)))
                vector = builder.insert_element(vector, value, _INT32(lane))
            return narrowed(builder, vector)

        def at_channel(place: Value, channel: Value) -> Value:
            return lanes.at(place, lanes.product(channel_step, channel))

        def write_filter(here: Value, place: Value) -> None:
            for pair in range(0, TILE, LANES):
                low, high = (bits(at_channel(here, 2 * pair + i * LANES)) for i in (0, 1))
                row, kind = lanes.shuffle(low, high, range(2 * LANES)), lanes.constant(0.0).type
                lanes.store(builder.bitcast(row, kind), lanes.at(place, pair))

        def write_pair(here: Value, place: Value) -> None:
            for f in range(0, TILE, LANES):
                start = lanes.at(here, lanes.product(filter_step, f))
                (row,) = unpacked(lanes, bits(start), bits(at_channel(start, 1)), 1)
                lanes.store(row, lanes.at(place, f))

        def turn(place: Value) -> None:
            """Rows of pairs become rows of filters."""
            corners = [(i, j) for i in range(0, TILE, LANES) for j in range(0, TILE, LANES)]
            squares = [
                [lanes.load(lanes.at(place, (i + row) * TILE + j)) for row in range(LANES)]
                for i, j in corners
            ]
            for (i, j), rows in zip(corners, squares, strict=True):
                for number, row in enumerate(transposed(lanes, rows)):
                    lanes.store(row, lanes.at(place, (j + number) * TILE + i))

        def step(t: Value) -> None:
            here = at_channel(source, lanes.product(t, 2 * TILE))
            place = lanes.at(target, lanes.product(t, TILE * TILE))

            def row(number: Value) -> None:
                at_row = lanes.at(place, lanes.product(number, TILE))
                if by_filters:
                    write_pair(at_channel(here, lanes.product(number, 2)), at_row)
                else:
                    write_filter(lanes.at(here, lanes.product(number, filter_step)), at_row)

            repeat(lanes, TILE if by_filters else args[8], row)
            if by_filters:
                turn(place)

        repeat(lanes, args[9], step)
        return context.get_dummy_value()

    return signature, generate


PACKING: Final = TileFunction(packing_tile, ("across", "apart"))
