# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The register tiles of depthwise convolution, as Numba intrinsics: some channels of some pixels.

A filter has one channel, so that nothing is summed over channels: what counts is how often memory
is read. The results of a channel stay in registers during the loop over the lines of the kernel,
and a vector that was loaded serves all columns of the kernel. Tiles check nothing: bounds are the
caller's responsibility. Indices and steps count elements; a channel of a pixel has `images` floats.

The kernel has `columns` columns; the windows of neighbouring results are `stride` columns apart. A
table has for each line of the kernel the `reach` places of the inputs under all windows, and of the
first of the line's weights. Places outside the image are in memory of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, final

from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.flow import fold, groups, repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.destination import WAYS, store_in_a_way
from vectorized_ops.numba.kernels.convolution.direct_tiles import add_moments
from vectorized_ops.numba.kernels.convolution.windows import reach
from vectorized_ops.numba.moments import SUMS

MOST_PIXELS = 4
"""Of a tile: with two vectors of images 8 registers hold results."""

_NEAR = 2
"""Vectors of images that are taken together."""

_INDEX = types.int64


@tile
def depthwise_tile(
    typingctx: Any, pixels: Any, columns: Any, stride: Any, out: Any, out_index: Any, out_step: Any,
    images: Any, bias: Any, bias_index: Any, weights: Any, weights_step: Any, turn: Any,
    inputs: Any, table: Any, lines: Any, mask: Any, mask_index: Any, mask_step: Any, mode: Any,
    channels: Any, wanted: Any, sums: Any, sums_index: Any, pivots: Any, pivots_index: Any,
    fresh: Any, bits: Any, coming: Any, coming_index: Any, coming_step: Any, coming_line: Any,
) -> Any:  # fmt: skip
    """Write `pixels` results, some steps apart, of each of so many channels.

    out[out_index + p*out_step + c*images + n] = bias[bias_index + c] + sum over the first `lines`
    lines of the table, and s < columns, of
    weights[line[reach] + c*weights_step + s*turn] * inputs[line[p*stride + s] + c*images + n].
    `mode`, and what is gathered in `sums` if `wanted`, are as in `direct_tiles.correlation_tile`.
    Meanwhile the second-level cache is asked for as many pixels as the windows are ahead of the
    last ones, in as many lines, from coming[coming_index + c*images] on.
    """
    number, width, apart = (each.literal_value for each in (pixels, columns, stride))
    signature = types.void(
        pixels, columns, stride, out, _INDEX, _INDEX, _INDEX, bias, _INDEX, weights, _INDEX, _INDEX,
        inputs, table, _INDEX, mask, _INDEX, _INDEX, _INDEX, _INDEX, types.boolean, sums, _INDEX,
        pivots, _INDEX, types.boolean, bits, coming, _INDEX, _INDEX, _INDEX,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, masking = lanes.pointer(3, *args[3:5]), lanes.pointer(15, *args[15:17])
        totals, pivots = lanes.pointer(21, *args[21:23]), lanes.pointer(23, *args[23:25])
        weights, source, real = (lanes.pointer(i, args[i]) for i in (9, 12, 26))
        table = _Table(lanes, lanes.pointer(13, args[13]), reach(number, width, apart))
        turns = [lanes.product(args[11], s) for s in range(width)]
        ahead = _Ahead(lanes, lanes.pointer(27, *args[27:29]), args[29:31], number, apart)
        steps = [lanes.product(args[5], p) for p in range(number)]
        masking_steps = [lanes.product(args[17], p) for p in range(number)]

        def channel(c: Value) -> None:
            row, start = lanes.product(c, args[6]), lanes.broadcast(lanes.pointer(7, *args[7:9], c))
            factors = lanes.at(weights, lanes.product(c, args[10]))

            def group(offset: Value, near: int) -> None:
                here = lanes.at(source, row, offset)
                ahead.fetch(lanes.sum(row, offset), near)

                def line(index: Value, results: list[Value]) -> list[Value]:
                    places, first = table.line(index)
                    values = [_vectors(lanes, here, place, near) for place in places]
                    for s, turn in enumerate(turns):
                        weight = lanes.broadcast(lanes.at(factors, first, turn))
                        for i in range(len(results)):
                            value = values[i // near * apart + s][i % near]
                            results[i] = lanes.fma(weight, value, results[i])
                    return results

                results = fold(lanes, 0, args[14], [start] * (number * near), line)
                rows = [results[p * near : (p + 1) * near] for p in range(number)]

                def store(way: int) -> None:
                    for vectors, step, other in zip(rows, steps, masking_steps, strict=True):
                        for j, vector in enumerate(vectors):
                            at = lanes.at(target, step, row, offset, j * LANES)
                            over = lanes.at(masking, other, row, offset, j * LANES)
                            store_in_a_way(lanes, vector, at, over, way)

                lanes.choose(args[18], WAYS, store)
                with builder.if_then(args[20]):
                    pivot, total = lanes.at(pivots, c), lanes.at(totals, lanes.product(c, SUMS))
                    begins = builder.icmp_signed("==", offset, lanes.integer(0))
                    with builder.if_then(builder.and_(args[25], begins)):
                        builder.store(lanes.first(results[0]), pivot)
                    for vectors in rows:
                        add_moments(lanes, vectors, pivot, total, lanes.at(real, offset))

            groups(lanes, lanes.quotient(args[6], LANES), _NEAR, group)

        repeat(lanes, args[19], channel)
        return context.get_dummy_value()

    return signature, generate


@tile
def depthwise_weights_tile(
    typingctx: Any, pixels: Any, columns: Any, stride: Any, sums: Any, sums_step: Any,
    gradient: Any, gradient_index: Any, gradient_step: Any, gradient_ahead: Any, images: Any,
    inputs: Any, table: Any, lines: Any, channels: Any, coming: Any, coming_index: Any,
    coming_step: Any, coming_line: Any, group: Any, which: Any,
) -> Any:  # fmt: skip
    """Add what `pixels` pixels give to the gradients of each of so many filters.

    They go in groups of `group`, which have as many channels. Weight number i between filter k and
    channel `which` of its group has a vector at sums[(k*group + which)*sums_step + i*LANES]: added
    to it are gradient[gradient_index + p*gradient_step + k*images + n] times the inputs of that
    channel that meet it in `depthwise_tile`, where line[reach] is the number of the line's first
    weight. The last vector of channel 0 is that of the filter's bias. For channel 0 the
    second-level cache is asked for the gradient that is ahead, and for what is coming as in
    `depthwise_tile`.
    """
    number, width, apart = (each.literal_value for each in (pixels, columns, stride))
    signature = types.void(
        pixels, columns, stride, sums, _INDEX, gradient, _INDEX, _INDEX, _INDEX, _INDEX, inputs,
        table, _INDEX, _INDEX, coming, _INDEX, _INDEX, _INDEX, _INDEX, _INDEX,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        above, source = lanes.pointer(5, *args[5:7]), lanes.pointer(10, args[10])
        table = _Table(lanes, lanes.pointer(11, args[11]), reach(number, width, apart))
        ahead = _Ahead(lanes, lanes.pointer(14, *args[14:16]), args[16:18], number, apart)
        steps = [lanes.product(args[7], p) for p in range(number)]
        size, channel = args[18:20]
        is_first = builder.icmp_signed("==", channel, lanes.integer(0))

        def add(begin: Value, member: Value) -> None:
            k = lanes.sum(begin, member)
            row = lanes.product(k, args[9])
            of_channel = lanes.product(lanes.sum(begin, channel), args[9])
            at = lanes.sum(lanes.product(k, size), channel)
            totals = lanes.pointer(3, args[3], lanes.product(at, args[4]))
            at_bias = lanes.at(totals, args[4], -LANES)

            def group(offset: Value, near: int) -> None:
                here, upper = lanes.at(source, of_channel, offset), lanes.at(above, row, offset)
                with builder.if_then(is_first):
                    ahead.fetch(lanes.sum(row, offset), near)
                    for step in steps:
                        for j in range(near):
                            lanes.prefetch(lanes.at(upper, args[8], step, j * LANES), level=2)
                slopes = [_vectors(lanes, upper, step, near) for step in steps]

                def line(index: Value) -> None:
                    places, first = table.line(index)
                    values = [_vectors(lanes, here, place, near) for place in places]
                    for s in range(width):
                        at = lanes.at(totals, lanes.product(first, LANES), s * LANES)
                        met = zip(slopes, values[s::apart], strict=False)
                        lanes.store(_added_products(lanes, lanes.load(at), met, near), at)

                repeat(lanes, args[12], line)
                with builder.if_then(is_first):
                    total = lanes.load(at_bias)
                    for slope in slopes:
                        for vector in slope:
                            total = lanes.add(total, vector)
                    lanes.store(total, at_bias)

            groups(lanes, lanes.quotient(args[9], LANES), _NEAR, group)

        def members(number: Value) -> None:
            begin = lanes.product(number, size)
            repeat(lanes, size, lambda member: add(begin, member))

        repeat(lanes, builder.sdiv(args[13], size), members)
        return context.get_dummy_value()

    return signature, generate


@final
class _Table:
    """The lines of a tile's table, each the places of inputs and of a weight."""

    def __init__(self, lanes: Lanes, begin: Value, places: int) -> None:
        self._lanes, self._begin, self._places = lanes, begin, places

    def line(self, index: Value) -> tuple[list[Value], Value]:
        """Return the places of a line, and that of its weight."""
        lanes = self._lanes
        begin = lanes.at(self._begin, lanes.product(index, self._places + 1))
        *places, weight = [lanes.load_integer(lanes.at(begin, i)) for i in range(self._places + 1)]
        return places, weight


@final
class _Ahead:
    """What is read after the windows of a tile: `apart` new lines, of `apart` pixels per result."""

    def __init__(
        self, lanes: Lanes, begin: Value, steps: Sequence[Value], number: int, apart: int
    ) -> None:
        step, line = steps
        self._lanes, self._begin = lanes, begin
        self._places = [
            lanes.sum(lanes.product(line, i), lanes.product(step, p))
            for i in range(apart)
            for p in range(number * apart)
        ]

    def fetch(self, offset: Value, near: int) -> None:
        """Ask the second-level cache for some vectors of each pixel."""
        lanes = self._lanes
        for place in self._places:
            for j in range(near):
                lanes.prefetch(lanes.at(self._begin, place, offset, j * LANES), level=2)


def _added_products(
    lanes: Lanes, total: Value, factors: Iterable[tuple[list[Value], list[Value]]], near: int
) -> Value:
    """Return a total plus products, in as many sums at once as vectors are near each other."""
    sums = [total] + [lanes.constant(0.0)] * (near - 1)
    for left, right in factors:
        sums = [lanes.fma(*each) for each in zip(left, right, sums, strict=True)]
    for other in sums[1:]:
        sums[0] = lanes.add(sums[0], other)
    return sums[0]


def _vectors(lanes: Lanes, begin: Value, place: Value, near: int) -> list[Value]:
    return [lanes.load(lanes.at(begin, place, j * LANES)) for j in range(near)]


@tile
def copied_tile(
    typingctx: Any, out: Any, out_index: Any, inputs: Any, inputs_index: Any, ahead: Any,
    vectors: Any,
) -> Any:  # fmt: skip
    """Write out[out_index + i] = inputs[inputs_index + i] for i < vectors * LANES.

    Meanwhile the first-level cache is asked for what is `ahead`.
    """
    signature = types.void(out, _INDEX, inputs, _INDEX, _INDEX, _INDEX)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, *args[:2]), lanes.pointer(2, *args[2:4])

        def group(offset: Value, near: int) -> None:
            places = [(offset, j * LANES) for j in range(near)]
            for place in places:
                lanes.prefetch(lanes.at(source, args[4], *place))
            values = [lanes.load(lanes.at(source, *place)) for place in places]
            for value, place in zip(values, places, strict=True):
                lanes.store(value, lanes.at(target, *place))

        groups(lanes, args[5], 2 * _NEAR, group)
        return context.get_dummy_value()

    return signature, generate


_CONSTANTS = "pixels", "columns", "stride"

DEPTHWISE: Final = TileFunction(depthwise_tile, _CONSTANTS, table=types.int64, bits=types.int32)
DEPTHWISE_WEIGHTS: Final = TileFunction(depthwise_weights_tile, _CONSTANTS, table=types.int64)
