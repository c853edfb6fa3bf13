"""Windows on channels_last arrays: which pixels a target gathers, forward and backward.

Forward, the sources of a target are the pixels of its window; backward, they are the windows that
hold a pixel. Threads share the lines of all images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from vectorized_ops.numba.emit.flow import fold, groups, repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value
from vectorized_ops.numba.kernels.channels_last.lanes import (
    first_lanes,
    larger,
    load_lanes,
    smaller,
)
from vectorized_ops.numba.kernels.channels_last.team import THREADS, address, argument, flag, part

(
    _THREADS, IMAGES, HEIGHT, WIDTH, CHANNELS, LINES, PIXELS, KERNEL_Y, KERNEL_X, STRIDE_Y,
    STRIDE_X, PADDING_Y, PADDING_X, PAST, RECTIFY, OUT, VALUES, WHICH, OUTPUTS, SHARES_Y, SHARES_X,
    OUT_DISTANCE, VALUES_DISTANCE, WHICH_DISTANCE, ADD, MASKED, MASK, MASK_DISTANCE,
) = range(THREADS, THREADS + 28)  # fmt: skip
"""Places in the arguments. HEIGHT and WIDTH are those of the images, LINES and PIXELS those of what
is pooled from them, OUT and VALUES the arrays written and read.

WHICH holds a byte per pooled value. Rows of OUT, VALUES, WHICH and MASK lie their DISTANCE apart.
RECTIFY takes the ReLU of what is pooled, which comes to the same as pooling the ReLU; the gradient
is zero where OUTPUTS, the result, whose rows lie as those of VALUES, is <= 0. SHARES: of each line
and column of windows, the shares of a pixel in the mean; a window's is their product. ADD and
MASKED are flags of backward passes: to add to what is there, and to write zero where MASK <= 0.
"""

_GROUP = 4
"""Vectors of a pixel that pass through its sources together."""


@dataclass(frozen=True)
class Axis:
    """Lines or columns: of the images, of what is pooled, and the windows between them."""

    extent: Value
    windows: Value
    kernel: Value
    stride: Value
    padding: Value

    def window(self, lanes: Lanes, position: Value) -> tuple[Value, Value, Value]:
        """Return first and last source of a window, and where it begins."""
        builder = lanes.builder
        begin = builder.sub(lanes.product(position, self.stride), self.padding)
        end = lanes.sum(begin, self.kernel)
        return larger(lanes, begin, 0), smaller(lanes, end, self.extent), begin

    def holders(self, lanes: Lanes, position: Value) -> tuple[Value, Value, Value]:
        """Return the first and last window that hold a position, which is counted from padding."""
        builder, place = lanes.builder, lanes.sum(position, self.padding)
        earliest = larger(lanes, builder.sub(lanes.sum(place, 1), self.kernel), 0)
        rounding = builder.sub(self.stride, lanes.integer(1))
        first = builder.udiv(lanes.sum(earliest, rounding), self.stride)
        last = lanes.sum(builder.udiv(place, self.stride), 1)
        return first, smaller(lanes, last, self.windows), place


class Pooling:
    """Emits the share of one thread: `emit_vectors` for all groups of vectors of its pixels."""

    def __init__(self, lanes: Lanes, given: Value, element: Any) -> None:
        self.lanes = lanes

        def read(place: int) -> Value:
            return argument(lanes, given, place)

        self._images, self.channels = read(IMAGES), read(CHANNELS)
        self.y = Axis(*map(read, (HEIGHT, LINES, KERNEL_Y, STRIDE_Y, PADDING_Y)))
        self.x = Axis(*map(read, (WIDTH, PIXELS, KERNEL_X, STRIDE_X, PADDING_X)))
        self.past, self.rectify, self.add, self.masked = (
            flag(lanes, given, place) for place in (PAST, RECTIFY, ADD, MASKED)
        )
        self.out, self.values, self.outputs, self.mask = (
            address(lanes, given, place, element) for place in (OUT, VALUES, OUTPUTS, MASK)
        )
        self.out_distance, self.values_distance, self.bytes_of_pixel, self.mask_distance = map(
            read, (OUT_DISTANCE, VALUES_DISTANCE, WHICH_DISTANCE, MASK_DISTANCE)
        )
        self.shares_y, self.shares_x = (
            address(lanes, given, place) for place in (SHARES_Y, SHARES_X)
        )
        self.which = address(lanes, given, WHICH, ir.IntType(8))

    def emit(self, share: Value, shares: Value, backward: bool, emit_vectors: EmitVectors) -> None:
        """Emit the loops over lines, pixels and vectors."""
        lanes, builder = self.lanes, self.lanes.builder
        lines = self.y.extent if backward else self.y.windows
        pixels = self.x.extent if backward else self.x.windows
        source_lines = self.y.windows if backward else self.y.extent
        source_pixels = self.x.windows if backward else self.x.extent
        all_lines = lanes.product(self._images, lines)
        first, last = (
            part(lanes, all_lines, number, shares) for number in (share, lanes.sum(share, 1))
        )

        def line(index: Value, _none: list[Value]) -> list[Value]:
            image, y = builder.udiv(index, lines), builder.urem(index, lines)
            rows = (self.y.holders if backward else self.y.window)(lanes, y)
            source = lanes.product(image, source_lines)

            def pixel(x: Value) -> None:
                columns = (self.x.holders if backward else self.x.window)(lanes, x)
                target = lanes.sum(lanes.product(index, pixels), x)
                sources = Sources(self, backward, rows, columns, source, source_pixels)
                self._each_vector(lambda vectors: emit_vectors(self, target, sources, vectors))

            repeat(lanes, pixels, pixel)
            return []

        fold(lanes, first, last, [], line)

    def _each_vector(self, body: Callable[[Vectors], None]) -> None:
        lanes = self.lanes
        vectors = lanes.quotient(self.channels, LANES)
        groups(lanes, vectors, _GROUP, lambda offset, n: body(Vectors(lanes, offset, n, None)))
        rest = lanes.remainder(self.channels, LANES)
        with lanes.builder.if_then(lanes.builder.icmp_signed("!=", rest, lanes.integer(0))):
            offset = lanes.product(vectors, LANES)
            body(Vectors(lanes, offset, 1, first_lanes(lanes, rest)))


@dataclass(frozen=True)
class Vectors:
    """Neighbouring vectors of a pixel, the last ones perhaps only with the lanes of a mask."""

    lanes: Lanes
    offset: Value
    number: int
    mask: Value | None

    def places(self, start: Value, pixel: Value, distance: Value) -> list[Value]:
        """Return the addresses of the vectors of a pixel."""
        row = self.lanes.at(start, self.lanes.product(pixel, distance), self.offset)
        return [self.lanes.at(row, i * LANES) for i in range(self.number)]

    def load(self, start: Value, pixel: Value, distance: Value) -> list[Value]:
        """Return the vectors of a pixel."""
        places = self.places(start, pixel, distance)
        return [load_lanes(self.lanes, place, self.mask) for place in places]


@dataclass(frozen=True)
class Sources:
    """The pixels that one target pixel gathers."""

    pooling: Pooling
    backward: bool
    rows: tuple[Value, Value, Value]
    columns: tuple[Value, Value, Value]
    first_line: Value
    pixels: Value

    def place(self, y: Value, x: Value) -> Value:
        """Return the place in the window that joins a source and the target."""
        pooling, builder = self.pooling, self.pooling.lanes.builder
        if self.backward:
            row = builder.sub(self.rows[2], builder.mul(y, pooling.y.stride))
            column = builder.sub(self.columns[2], builder.mul(x, pooling.x.stride))
        else:
            row, column = builder.sub(y, self.rows[2]), builder.sub(x, self.columns[2])
        return builder.add(builder.mul(row, pooling.x.kernel), column)

    def first_place(self) -> Value:
        """Return the place of the first source."""
        return self.place(self.rows[0], self.columns[0])

    def fold(self, start: list[Value], body: GatherOne) -> list[Value]:
        """Run `body(y, x, pixel, values) -> values` over the sources."""
        lanes = self.pooling.lanes

        def line(y: Value, values: list[Value]) -> list[Value]:
            begin = lanes.product(lanes.sum(self.first_line, y), self.pixels)

            def step(x: Value, values: list[Value]) -> list[Value]:
                return body(y, x, lanes.sum(begin, x), values)

            return fold(lanes, self.columns[0], self.columns[1], values, step)

        return fold(lanes, self.rows[0], self.rows[1], start, line)


EmitVectors = Callable[[Pooling, Value, Sources, Vectors], None]
GatherOne = Callable[[Value, Value, Value, list[Value]], list[Value]]
