# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The gradient of maximum pooling with stride 1, as Numba intrinsics: windows are read once.

A line of windows adds to the sums of all lines of pixels that it covers. Lines that later windows
add to as well wait side by side in scratch memory, for a strip of channels, pixel after pixel.
Windows are taken two lines at a time, since waiting lines are read from the second-level cache and
written back. Indices and distances count elements.
"""

from __future__ import annotations

from itertools import chain, product
from typing import Any

from numba import types

from vectorized_ops.numba.emit.argmax_places import Places
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.gradient_store import Delivery, deliver
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.pooling.block_row import BlockRow
from vectorized_ops.numba.kernels.pooling.blocks import READ, SIDE


@tile
def line_winners_tile(
    typingctx: Any, rows: Any, lines: Any, columns: Any, out: Any, out_distance: Any, mask: Any,
    mask_distance: Any, sums: Any, length: Any, spare: Any, gradient: Any, gradient_distance: Any,
    which: Any, which_distance: Any, table: Any, below: Any, delivers: Any, nowhere: Any,
    across: Any, column: Any, next_column: Any, vectors: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Add what `rows` lines of windows, 1 to READ, give to a block of SIDE pixels.

    As many lines of pixels get nothing more and are delivered, from line `delivers` on. The sums of
    those that follow wait in a scratch of `length` elements a line, and move up in it. For READ
    lines each `table` holds where the gradient begins and the places, both of the lines below too,
    the lines of pixels and those of the mask; the next block lies on these lines (`below` is 0) or
    on those below (1). At `spare` of the sums goes what is not delivered. `nowhere` holds NOWHERE
    for each element of a strip; `across` is the flat table of columns, whose next row is asked for.
    """
    kernel = lines.literal_value, columns.literal_value
    signature = types.void(
        types.int64, lines, columns, out, types.int64, mask, types.int64, sums, types.int64,
        types.int64, gradient, types.int64, which, types.int64, table, types.int64, types.int64,
        nowhere, across, types.int64, types.int64, types.int64, types.boolean, types.boolean,
        types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        names = Places(lanes)
        row, later = (
            BlockRow(lanes, lanes.pointer(18, args[18], args[i]), kernel[1]) for i in (19, 20)
        )
        known, members, exists = (
            [row.flag(number) for number in row.about()], row.members(), row.exists()
        )  # fmt: skip
        none, spare = lanes.pointer(17, args[17]), lanes.pointer(7, args[7], args[9])
        size = lanes.product(args[21], LANES)

        def begin(of: int, kind: Value, line: int) -> Value:
            """Return where a line of argument `of` begins, by its entry of a kind in the table."""
            position = lanes.sum(lanes.product(kind, READ), line)
            entry = lanes.load_integer(lanes.pointer(14, args[14], position))
            return lanes.pointer(of, args[of], entry)

        def ahead(line: int) -> list[Value]:
            """Return what the next block sees and this one does not."""
            return [
                pixel
                for of, kind in ((10, 0), (12, 1))
                for pixel in later.addresses(
                    begin(of, lanes.sum(lanes.product(args[15], 2), kind), line), args[of + 1]
                )[-SIDE:]
            ]

        def delivered(of: int, kind: int, line: int) -> list[Value]:
            """Return the members' places in a line, elsewhere if they are not to be delivered."""
            wanted = builder.icmp_signed("<=", args[16], lanes.integer(line))
            first = begin(of, kind, line)
            elsewhere = builder.bitcast(spare, first.type)
            return [
                lanes.select(
                    builder.and_(wanted, there),
                    lanes.at(first, lanes.product(member, args[of + 1])),
                    elsewhere,
                )
                for member, there in zip(members, exists, strict=True)
            ]

        def emit(rows: int) -> None:
            above = [row.addresses(begin(10, 0, line), args[11]) for line in range(rows)]
            won = [
                [
                    lanes.select(there, place, none)
                    for there, place in zip(
                        known, row.addresses(begin(12, 1, line), args[13]), strict=True
                    )
                ]
                for line in range(rows)
            ]
            waiting = [
                [
                    lanes.pointer(
                        7, args[7], lanes.product(args[8], line), lanes.product(member, size)
                    )
                    for member in members
                ]
                for line in range(kernel[0] - 1)
            ]
            asked = [pixel for line in range(rows) for pixel in ahead(line)]
            targets, cuts = (
                [place for line in range(rows) for place in delivered(of, kind, line)]
                for of, kind in ((3, 4), (5, 5))
            )

            def vector(index: Value) -> None:
                offset = lanes.product(index, LANES)
                for pixel in asked:
                    lanes.prefetch(lanes.at(pixel, offset), level=2)
                slopes = [[lanes.load(lanes.at(pixel, offset)) for pixel in line] for line in above]
                places = [[names.load(lanes.at(pixel, offset)) for pixel in line] for line in won]

                def total(line: int, x: int) -> Value:
                    """Return the sum of a pixel, with what waits of it."""
                    found = lanes.constant(0.0)
                    if line < kernel[0] - 1:
                        found = lanes.load(lanes.at(waiting[line][x], offset))
                    for window, i in product(range(rows), range(kernel[1])):
                        if 0 <= line - window < kernel[0]:
                            seen = x + kernel[1] - 1 - i
                            place = names.constant((line - window) * kernel[1] + i)
                            same = names.same(places[window][seen], place)
                            found = lanes.select(
                                same, lanes.add(found, slopes[window][seen]), found
                            )
                    return found

                lasting = range(rows + kernel[0] - 1)
                sums = [[total(line, x) for x in range(SIDE)] for line in lasting]
                for x in reversed(range(SIDE)):  # what does not exist is the first again
                    for line, pointers in zip(sums[rows:], waiting, strict=True):
                        lanes.store(line[x], lanes.at(pointers[x], offset))
                out, cut = (
                    [lanes.at(place, offset) for place in found] for found in (targets, cuts)
                )
                deliver(lanes, [*chain(*sums[:rows])], out, cut, *args[22:])

            repeat(lanes, args[21], vector)

        lanes.choose(args[0], range(READ, 0, -1), emit)
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
