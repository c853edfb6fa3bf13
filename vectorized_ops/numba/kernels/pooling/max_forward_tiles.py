# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Maximum pooling of small windows, as Numba intrinsics: along a line, then across lines.

Values common to neighbouring windows are compared once, and every line of the image is read once.
Maxima along lines that the next windows cover as well wait side by side in scratch memory, for a
strip of channels, pixel after pixel. Windows read in place would evict each other from the cache,
since pixels often lie multiples of a page apart. With stride 1, lines of windows are made two at a
time, since waiting lines are read from the second-level cache and written back. Indices and
distances count elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import Any

from numba import types

from vectorized_ops.numba.emit.argmax_places import Places
from vectorized_ops.numba.emit.flow import if_any_is_nan, repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.pooling.block_row import BlockRow
from vectorized_ops.numba.kernels.pooling.blocks import READ, SIDE

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


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A scratch of candidates: the pointers to its values and to their places."""

    lanes: Lanes
    names: Places
    values: Value
    places: Value

    def load(self, *index: Value) -> Candidate:
        """Return those from an index on, which is a sum."""
        return (
            self.lanes.load(self.lanes.at(self.values, *index)),
            self.names.load(self.lanes.at(self.places, *index)),
        )

    def store(self, candidate: Candidate, *index: Value) -> None:
        """Keep them there."""
        self.lanes.store(candidate[0], self.lanes.at(self.values, *index))
        self.names.store_near(candidate[1], self.lanes.at(self.places, *index))


def _seen(lanes: Lanes, pixels: list[Value], places: list[Value], offset: Value) -> list[Candidate]:
    """Return what lies in the pixels of a line."""
    return [
        (lanes.load(lanes.at(pixel, offset)), place)
        for pixel, place in zip(pixels, places, strict=True)
    ]


def _windows(
    names: Places, larger: Larger, seen: list[Candidate], number: int, stride: int, unit: int = 1
) -> list[Candidate]:
    """Return the maxima of 1 or 2 windows `stride` apart, which together hold what is seen.

    The places of the second are less by stride * unit than those of the first.
    """
    if number == 1:
        return [reduce(larger, seen)]
    both = seen[stride:-stride]
    shared = [reduce(larger, both)] if both else []
    value, place = reduce(larger, [*shared, *seen[-stride:]])
    return [
        reduce(larger, [*seen[:stride], *shared]),
        (value, names.less(place, stride * unit)),
    ]


@tile
def line_maxima_tile(
    typingctx: Any, columns: Any, stride: Any, values: Any, index: Any, places: Any, images: Any,
    line_index: Any, distance: Any, across: Any, column: Any, next_column: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write the largest of `columns` neighbours for a block of SIDE windows, and their places.

    Those of the line begin at `index` of scratches that are as long; `across` is the flat table of
    columns, `column` and `next_column` the rows of this block and of the one that is asked for.
    """
    window = columns.literal_value, stride.literal_value
    signature = types.void(
        columns, stride, values, types.int64, places, images, types.int64, types.int64, across,
        types.int64, types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        names = Places(lanes)
        waiting = _Waiting(
            lanes, names, lanes.pointer(2, args[2], args[3]), lanes.pointer(4, args[4], args[3])
        )
        row, later = (BlockRow(lanes, lanes.pointer(8, args[8], args[i]), *window) for i in (9, 10))
        here = row.addresses(lanes.pointer(5, args[5], args[6]), args[7])
        asked = later.addresses(lanes.pointer(5, args[5], args[6]), args[7])[-SIDE * window[1] :]
        known = [names.spread(place) for place in row.about()]
        size = lanes.product(args[11], LANES)
        starts = [lanes.product(member, size) for member in row.members()]

        def vector(index: Value) -> None:
            offset = lanes.product(index, LANES)
            for pixel in asked:
                lanes.prefetch(lanes.at(pixel, offset), level=2)
            seen = _seen(lanes, here, known, offset)

            def write(larger: Larger) -> None:
                found = zip(_windows(names, larger, seen, SIDE, window[1]), starts, strict=True)
                for candidate, start in reversed(list(found)):
                    waiting.store(candidate, start, offset)

            _carefully(lanes, seen, write)

        repeat(lanes, args[11], vector)
        return context.get_dummy_value()

    return signature, generate


@tile
def joined_maxima_tile(
    typingctx: Any, rows: Any, lines: Any, columns: Any, stride: Any, out: Any, out_index: Any,
    out_line: Any, out_distance: Any, which: Any, which_index: Any, which_line: Any,
    which_distance: Any, values: Any, places: Any, length: Any, images: Any, table: Any, asked: Any,
    distance: Any, across: Any, column: Any, next_column: Any, vectors: Any, past: Any,
) -> Any:  # fmt: skip
    """Write `rows` lines of windows of a block of SIDE, 1 to READ / stride, and their places.

    The maxima along lines that the windows above have seen wait in scratches of `length` elements
    a line, and make way for those that the windows below will see. Of READ lines each `table` holds
    where those begin that are read now and those that are read next, and then by how much the
    places of each line are more than those in a line; the next block lies on the lines that begin
    at the entries from `asked` on. `across` and its rows are those of `line_maxima_tile`.
    """
    kernel, apart = (lines.literal_value, columns.literal_value), stride.literal_value
    overlap = kernel[0] - apart
    signature = types.void(
        types.int64, lines, columns, stride, out, types.int64, types.int64, types.int64, which,
        types.int64, types.int64, types.int64, values, places, types.int64, images, table,
        types.int64, types.int64, across, types.int64, types.int64, types.int64, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        names = Places(lanes)
        waiting = _Waiting(lanes, names, lanes.pointer(12, args[12]), lanes.pointer(13, args[13]))
        row, later = (
            BlockRow(lanes, lanes.pointer(19, args[19], args[i]), kernel[1], apart)
            for i in (20, 21)
        )
        known, members = [names.spread(place) for place in row.about()], row.members()
        size = lanes.product(args[22], LANES)

        def entry(position: Value) -> Value:
            return lanes.load_integer(lanes.pointer(16, args[16], lanes.integer(position)))

        def target(of: int, line: int, member: Value) -> Value:
            """Return where a window of argument `of` lies."""
            moved = lanes.product(args[of + 2], line), lanes.product(args[of + 3], member)
            return lanes.pointer(of, args[of], args[of + 1], *moved)

        def emit(rows: int) -> None:
            here = [
                row.addresses(lanes.pointer(15, args[15], entry(line)), args[18])
                for line in range(rows * apart)
            ]
            asked = [
                pixel
                for line in range(rows * apart)
                for pixel in later.addresses(
                    lanes.pointer(15, args[15], entry(lanes.sum(args[17], line))), args[18]
                )[-SIDE * apart :]
            ]
            steps = [names.spread(entry(2 * READ + line)) for line in range(overlap + rows * apart)]
            starts = [
                [
                    lanes.sum(lanes.product(args[14], line), lanes.product(member, size))
                    for member in members
                ]
                for line in range(overlap)
            ]
            targets = [
                [(target(4, line, member), target(8, line, member)) for member in members]
                for line in range(rows)
            ]

            def vector(index: Value) -> None:
                offset = lanes.product(index, LANES)
                for pixel in asked:
                    lanes.prefetch(lanes.at(pixel, offset), level=2)
                seen = [_seen(lanes, line, known, offset) for line in here]
                above = [[waiting.load(start, offset) for start in line] for line in starts]

                def write(larger: Larger) -> None:
                    made = [*above, *(_windows(names, larger, line, SIDE, apart) for line in seen)]
                    for member in reversed(range(SIDE)):  # what does not exist is the first again
                        column = [line[member] for line in made]
                        for candidate, line in zip(column[rows * apart :], starts, strict=True):
                            waiting.store(candidate, line[member], offset)
                        placed = [
                            (value, names.more(place, step))
                            for (value, place), step in zip(column, steps, strict=True)
                        ]
                        results = _windows(names, larger, placed, rows, apart, kernel[1])
                        for (value, place), line in zip(results, targets, strict=True):
                            out, winner = line[member]
                            lanes.store_streamed(value, lanes.at(out, offset), args[23])
                            names.store_near(place, lanes.at(winner, offset))

                _carefully(lanes, [*chain(*seen), *chain(*above)], write)

            repeat(lanes, args[22], vector)

        lanes.choose(args[0], range(READ // apart, 0, -1), emit)
        return context.get_dummy_value()

    return signature, generate
