# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The gradient of maximum pooling with stride 1, as Numba intrinsics: windows are read once.

A line of windows adds to the sums of all lines of pixels that it sees. They wait, side by side, in
a scratch that holds as many lines of a strip of channels, pixel after pixel, and are delivered when
the last line of windows has added to them. Indices and distances count elements.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from numba import types

from vectorized_ops.numba._block_row import BlockRow
from vectorized_ops.numba._delivery import Delivery
from vectorized_ops.numba._flow import repeat
from vectorized_ops.numba._lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba._places import Places
from vectorized_ops.numba._window_blocks import SIDE


@tile
def line_winners_tile(
    typingctx: Any, lines: Any, columns: Any, sums: Any, index: Any, table: Any, fresh: Any,
    gradient: Any, gradient_index: Any, gradient_next: Any, gradient_distance: Any, which: Any,
    which_index: Any, which_next: Any, which_distance: Any, nowhere: Any, across: Any, column: Any,
    next_column: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Add what a line of windows of lines x columns pixels gives to a block of SIDE pixels.

    The sums of line i of the windows begin at table[i] + index; the last of them, or with `fresh`
    all, begin with this line of windows. `nowhere` holds NOWHERE for each element of a strip;
    `across` is the flat table of columns, whose next row, on lines that begin at the next indices,
    is asked for.
    """
    kernel = lines.literal_value, columns.literal_value
    signature = types.void(
        lines, columns, sums, types.int64, table, types.boolean, gradient, types.int64, types.int64,
        types.int64, which, types.int64, types.int64, types.int64, nowhere, across, types.int64,
        types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        names = Places(lanes)
        row, later = (
            BlockRow(lanes, lanes.pointer(15, args[15], args[i]), kernel[1]) for i in (16, 17)
        )
        above, won = (
            row.addresses(lanes.pointer(i, args[i], args[i + 1]), args[i + 3]) for i in (6, 10)
        )
        asked = [
            pointer
            for i in (6, 10)
            for pointer in later.addresses(lanes.pointer(i, args[i], args[i + 2]), args[i + 3])[
                -SIDE:
            ]
        ]
        none, exists = lanes.pointer(14, args[14]), row.exists()
        won = [
            lanes.select(row.flag(known), place, none)
            for known, place in zip(row.about(), won, strict=True)
        ]
        starts = [
            lanes.pointer(
                2, args[2], args[3], lanes.load_integer(lanes.pointer(4, args[4], lanes.integer(i)))
            )
            for i in range(kernel[0])
        ]

        def vector(index: Value) -> None:
            offset = lanes.product(index, LANES)
            for pointer in asked:
                lanes.prefetch(lanes.at(pointer, offset), level=2)
            slopes = [lanes.load(lanes.at(pointer, offset)) for pointer in above]
            places = [names.load(lanes.at(pointer, offset)) for pointer in won]

            def add(x: int, line: int) -> None:
                at = lanes.at(starts[line], offset, lanes.product(args[18], x * LANES))
                total = lanes.constant(0.0)
                if line < kernel[0] - 1:
                    total = lanes.select(args[5], total, lanes.load(at))
                for i in range(kernel[1]):
                    window = x + kernel[1] - 1 - i
                    place = names.constant(line * kernel[1] + i)
                    same = names.same(places[window], place)
                    total = lanes.select(same, lanes.add(total, slopes[window]), total)
                lanes.store(total, at)

            for line in range(kernel[0]):
                add(0, line)
            with builder.if_then(exists[1], likely=True):
                for x, line in product(range(1, SIDE), range(kernel[0])):
                    add(x, line)

        repeat(lanes, args[18], vector)
        return context.get_dummy_value()

    return signature, generate


@tile
def delivered_tile(
    typingctx: Any, out: Any, out_index: Any, out_distance: Any, mask: Any, mask_index: Any,
    mask_distance: Any, sums: Any, index: Any, pixels: Any, vectors: Any, add: Any, masked: Any,
    past: Any,
) -> Any:  # fmt: skip
    """Deliver the sums of a line of pixels, which begin at `index`."""
    signature = types.void(
        out, types.int64, types.int64, mask, types.int64, types.int64, sums, types.int64,
        types.int64, types.int64, types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        length = lanes.product(args[9], LANES)

        def pixel(number: Value) -> None:
            target = lanes.pointer(0, args[0], args[1], lanes.product(number, args[2]))
            cut = lanes.pointer(3, args[3], args[4], lanes.product(number, args[5]))
            waiting = lanes.pointer(6, args[6], args[7], lanes.product(number, length))
            delivery = Delivery(lanes, target, cut, *args[10:])

            def vector(index: Value) -> None:
                offset = lanes.product(index, LANES)
                delivery.write([lanes.load(lanes.at(waiting, offset))], offset)

            repeat(lanes, args[9], vector)

        repeat(lanes, args[8], pixel)
        return context.get_dummy_value()

    return signature, generate
