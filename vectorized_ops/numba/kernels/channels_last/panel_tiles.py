# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The register tile of all products of channels_last convolutions, as a Numba intrinsic.

The lanes of a vector are neighbouring channels of the result. One operand lies in panels, a vector
for each step; of the other a number is broadcast. Bounds are the caller's responsibility.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types
from numba.core import cgutils

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.lanes import AVX512, LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.channels_last.lanes import first_lanes, load_lanes, store_lanes
from vectorized_ops.numba.kernels.convolution.destination import MASK, PAST, RELU

ROWS = 14 if AVX512 else 6
"""Rows of a tile: two vectors wide, its results and operands fill the registers."""


@tile
def panels_tile(
    typingctx: Any, rows: Any, columns: Any, out: Any, out_index: Any, out_row: Any, start: Any,
    start_index: Any, start_row: Any, mask: Any, mask_index: Any, mask_row: Any, way: Any,
    factors: Any, factors_index: Any, factors_row: Any, factors_step: Any, panels: Any,
    panels_index: Any, panels_step: Any, panel: Any, steps: Any, tail: Any, coming: Any,
    coming_index: Any, coming_step: Any,
) -> Any:  # fmt: skip
    """Write `rows` x `columns` vectors of a product, of which the last vector has `tail` lanes.

    out[out_index + i*out_row + j*LANES + lane] = start[start_index + i*start_row + j*LANES + lane]
    + sum over t < steps, steps >= 1, of factors[factors_index + i*factors_row + t*factors_step]
    * panels[panels_index + j*panel + t*panels_step + lane].
    `way`: RELU cuts off what is negative; MASK writes zero where `mask` is <= 0; PAST, alone or
    with RELU, writes past the caches, at whole vectors only. Meanwhile the second-level cache is
    asked, once a step, for coming[coming_index + t*coming_step], wherever that is.
    """
    height, width = rows.literal_value, columns.literal_value
    index = types.int64
    signature = types.void(
        rows, columns, out, index, index, start, index, index, mask, index, index, index,
        factors, index, index, index, panels, *[index] * 5, coming, index, index,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, begin, masking, scalars, vectors = (
            lanes.pointer(at, args[at], args[at + 1]) for at in (2, 5, 8, 12, 16)
        )
        last = first_lanes(lanes, args[21])
        coming_at = lanes.pointer(22, *args[22:24])

        def places(pointer: Value, row: Value) -> list[tuple[Value, Value | None]]:
            return [
                (
                    lanes.at(pointer, lanes.product(row, i), j * LANES),
                    last if j == width - 1 else None,
                )
                for i in range(height)
                for j in range(width)
            ]

        def step(t: Value, sums: list[Value]) -> list[Value]:
            source = lanes.at(vectors, lanes.product(t, args[18]))
            columns_of = [
                lanes.load(lanes.at(source, lanes.product(args[19], j))) for j in range(width)
            ]
            at_step, results = lanes.at(scalars, lanes.product(t, args[15])), []
            for i in range(height):
                factor = lanes.broadcast(lanes.at(at_step, lanes.product(args[14], i)))
                for j in range(width):
                    results.append(lanes.fma(factor, columns_of[j], sums[i * width + j]))
            lanes.prefetch(lanes.at(coming_at, lanes.product(t, args[24])), level=2)
            return results

        # Begun with `start`, long sums in many calls would lose precision.
        sums = lanes.loop(args[20], [lanes.constant(0.0)] * (height * width), step)
        results = [
            lanes.add(load_lanes(lanes, *place), value)
            for place, value in zip(places(begin, args[7]), sums, strict=True)
        ]
        targets, masks = places(target, args[4]), places(masking, args[10])

        def store(way: int) -> None:
            for value, (place, part), also in zip(results, targets, masks, strict=True):
                written = value
                if way & (RELU | MASK):
                    test = value if way & RELU else load_lanes(lanes, *also)
                    written = lanes.zero_unless_positive(test, value)
                if way & PAST:
                    lanes.store_past(written, place)
                else:
                    store_lanes(lanes, written, place, part, cgutils.false_bit)

        lanes.choose(args[11], (0, RELU, MASK, PAST, RELU | PAST), store)
        return context.get_dummy_value()

    return signature, generate


PANELS: Final = TileFunction(panels_tile, ("rows", "columns"))
