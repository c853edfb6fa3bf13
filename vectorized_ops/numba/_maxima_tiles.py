# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Maximum pooling with stride 1 in two steps, as Numba intrinsics: along a line, then across lines.

What the windows of neighbouring pixels share is compared once, and every line of the image is read
once: its maxima wait, side by side, in a scratch that holds `lines` lines of a strip of channels,
pixel after pixel. Windows read where they lie would drive each other out of the cache, pixels being
multiples of a page apart as often as not. Indices and distances count elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from numba import types

from vectorized_ops.numba._block_row import BlockRow
from vectorized_ops.numba._flow import if_any_is_nan, repeat
from vectorized_ops.numba._lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba._places import Places
from vectorized_ops.numba._window_blocks import SIDE

Candidate = tuple[Value, Value]
"""A value and its place."""

Larger = Callable[[Candidate, Candidate], Candidate]


def _larger(lanes: Lanes, best: Candidate, other: Candidate) -> Candidate:
    """Return the larger one, of equals the first; wrong where one is NaN."""
    above = lanes.compare(other[0], ">", best[0])
    return lanes.select(above, other[0], best[0]), lanes.select(above, other[1], best[1])


def _larger_or_nan(lanes: Lanes, best: Candidate, other: Candidate) -> Candidate:
    """Return the larger one, NaN being larger than all else."""
    return lanes.larger(*best, *other)


def _carefully(lanes: Lanes, seen: list[Candidate], write: Callable[[Larger], None]) -> None:
    """Write with the fast comparison, and again with the slow one if a NaN is among the values."""
    write(partial(_larger, lanes))
    values = [value for value, _ in seen]
    if_any_is_nan(lanes, values, lambda: write(partial(_larger_or_nan, lanes)))


@tile
def line_maxima_tile(
    typingctx: Any, columns: Any, values: Any, index: Any, places: Any, images: Any,
    line_index: Any, next_index: Any, distance: Any, across: Any, column: Any, next_column: Any,
    vectors: Any,
) -> Any:  # fmt: skip
    """Write the largest of `columns` neighbours for a block of SIDE windows, and their places.

    What is written lies at `index` of scratches that are as long; `across` is the flat table of
    columns, `column` and `next_column` the rows of this block and of the one that is asked for,
    which lies on the line that begins at `next_index`.
    """
    kernel = columns.literal_value
    signature = types.void(
        columns, values, types.int64, places, images, types.int64, types.int64, types.int64, across,
        types.int64, types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        names = Places(lanes)
        best, which = lanes.pointer(1, args[1], args[2]), lanes.pointer(3, args[3], args[2])
        row, later = (BlockRow(lanes, lanes.pointer(8, args[8], args[i]), kernel) for i in (9, 10))
        here = row.addresses(lanes.pointer(4, args[4], args[5]), args[7])
        asked = later.addresses(lanes.pointer(4, args[4], args[6]), args[7])[-SIDE:]
        known, exists = [names.spread(place) for place in row.about()], row.exists()

        def vector(index: Value) -> None:
            offset = lanes.product(index, LANES)
            for pixel in asked:
                lanes.prefetch(lanes.at(pixel, offset), level=2)
            seen = [
                (lanes.load(lanes.at(pixel, offset)), place)
                for pixel, place in zip(here, known, strict=True)
            ]

            def write(larger: Larger) -> None:
                shared = [reduce(larger, seen[1:kernel])] if kernel > 1 else []
                store(reduce(larger, [seen[0], *shared]), offset, 0)
                with builder.if_then(exists[1], likely=True):
                    second = lanes.sum(offset, lanes.product(args[11], LANES))
                    store(reduce(larger, [*shared, seen[kernel]]), second, 1)

            _carefully(lanes, seen, write)

        def store(result: Candidate, offset: Value, shift: int) -> None:
            lanes.store(result[0], lanes.at(best, offset))
            names.store_near(names.less(result[1], shift), lanes.at(which, offset))

        repeat(lanes, args[11], vector)
        return context.get_dummy_value()

    return signature, generate


@tile
def joined_maxima_tile(
    typingctx: Any, lines: Any, out: Any, out_index: Any, out_distance: Any, which: Any,
    which_index: Any, which_distance: Any, values: Any, places: Any, table: Any, windows: Any,
    vectors: Any, past: Any,
) -> Any:  # fmt: skip
    """Write the largest of `lines` lines of maxima, and their places, for a line of windows.

    table[i] is where line i begins in the scratches, table[lines + i] its place in the window.
    """
    number = lines.literal_value
    signature = types.void(
        lines, out, types.int64, types.int64, which, types.int64, types.int64, values, places,
        table, types.int64, types.int64, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        names = Places(lanes)
        entries = [
            lanes.load_integer(lanes.pointer(9, args[9], lanes.integer(i)))
            for i in range(2 * number)
        ]
        maxima = [lanes.pointer(7, args[7], entry) for entry in entries[:number]]
        known = [lanes.pointer(8, args[8], entry) for entry in entries[:number]]
        steps = [names.spread(entry) for entry in entries[number:]]

        def window(index: Value) -> None:
            start = lanes.product(index, lanes.product(args[11], LANES))
            target = lanes.pointer(1, args[1], args[2], lanes.product(index, args[3]))
            winner = lanes.pointer(4, args[4], args[5], lanes.product(index, args[6]))

            def vector(index: Value) -> None:
                offset = lanes.product(index, LANES)
                waiting = lanes.sum(start, offset)
                seen = [
                    (
                        lanes.load(lanes.at(value, waiting)),
                        names.more(names.load(lanes.at(place, waiting)), step),
                    )
                    for value, place, step in zip(maxima, known, steps, strict=True)
                ]

                def write(larger: Larger) -> None:
                    best, place = reduce(larger, seen)
                    lanes.store_streamed(best, lanes.at(target, offset), args[12])
                    names.store(place, lanes.at(winner, offset), args[12])

                _carefully(lanes, seen, write)

            repeat(lanes, args[11], vector)

        repeat(lanes, args[10], window)
        return context.get_dummy_value()

    return signature, generate
