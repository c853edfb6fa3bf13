# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The register tile of forward and backward-data convolution, as a Numba intrinsic.

A block of results, filters x images, stays in vector registers during the loop over all channels
and taps. One lane is one image, so that neither channel counts nor map sizes leave lanes empty, and
a weight is one broadcast. The tile checks nothing: bounds are the caller's responsibility.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.bfloat16 import in_order, sum_pairs
from vectorized_ops.numba.emit.lanes import Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic.batch_normalisation import moments
from vectorized_ops.numba.kernels.arithmetic.sums import accumulate
from vectorized_ops.numba.kernels.convolution.destination import (
    ADD,
    MASK,
    WAYS,
    store_in_a_way,
)


@tile
def correlation_tile(
    typingctx: Any, rows: Any, columns: Any, pairs: Any, out: Any, out_index: Any, images: Any,
    bias: Any, bias_index: Any, weights: Any, weights_index: Any, inputs: Any, inputs_index: Any,
    segments: Any, first: Any, count: Any, mask: Any, mask_index: Any, mode: Any, done: Any,
    coming: Any, coming_index: Any, coming_step: Any, wanted: Any, sums: Any, sums_index: Any,
    pivots: Any, pivots_index: Any, fresh: Any, bits: Any, bits_index: Any,
) -> Any:  # fmt: skip
    """Write `rows` x `columns` vectors of a correlation; if `wanted`, add its moments to `sums`.

    out[out_index + i*images + j*LANES + lane] = bias[bias_index + i] + sum over the `count`
    segments from `first` on, and over their steps t, of
    weights[weights_index + (row + t)*rows + i]
    * inputs[inputs_index + place + t*images + j*LANES + lane],
    segments being triples (place, row, steps >= 1). `mode`: RELU cuts off what is negative; ADD
    adds to what `out` holds, but not to the first `done` rows, which another tile has written;
    MASK then writes zero where `mask`, at mask_index instead of out_index, is <= 0. PAST stores
    past the caches, at whole vectors only. Meanwhile the second-level cache is asked, once a step,
    for what is wanted soon: coming[coming_index + place + t*coming_step], wherever that is.

    Row i has in `sums` a vector of sums of x - pivot, x being a result before RELU, ADD and MASK,
    and behind it a vector of their squares, pivots[pivots_index + i] being its pivot: if `fresh` it
    becomes the row's first result. Not counted are the first `done` rows, and images to which
    `bits` gives 0 instead of -1.

    With `pairs`, inputs are bfloat16 and a weight is the pair of two neighbouring rows, in the bits
    of a float32: weights[weights_index + (row + t)/2*rows + i], `row` and the steps being even.
    """
    height, width = rows.literal_value, columns.literal_value
    index = types.int64
    signature = types.void(
        rows, columns, pairs, out, index, index, bias, index, weights, index, inputs, index,
        segments, index, index, mask, index, index, index, coming, index, index, types.boolean,
        sums, index, pivots, index, types.boolean, bits, index,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        results = _correlate(lanes, args, height, width, bool(pairs.literal_value))
        with builder.if_then(args[22]):
            totals, pivots = lanes.pointer(23, args[23], args[24]), lanes.pointer(25, *args[25:27])
            real = lanes.pointer(28, args[28], args[29])
            gather_moments(lanes, results, width, args[18], totals, pivots, args[27], real)
        return context.get_dummy_value()

    return signature, generate


CORRELATION: Final = TileFunction(
    correlation_tile, ("rows", "columns", "pairs"), segments=types.int64, bits=types.int32
)


@tile
def point_tile(
    typingctx: Any, rows: Any, columns: Any, images: Any, pairs: Any, out: Any, out_index: Any,
    weights: Any, weights_index: Any, inputs: Any, inputs_index: Any, steps: Any, coming: Any,
    coming_index: Any, coming_step: Any,
) -> Any:  # fmt: skip
    """Write `rows` x `columns` vectors of a product of weights and inputs; `images` is a constant.

    out[out_index + i*images + j*LANES + lane] = sum over t < steps, steps >= 1, of
    weights[weights_index + t*rows + i] * inputs[inputs_index + t*images + j*LANES + lane].
    What is `coming` is asked for, and `pairs` are multiplied, as in `correlation_tile`.
    """
    height, width, row = rows.literal_value, columns.literal_value, images.literal_value
    index = types.int64
    signature = types.void(
        rows, columns, images, pairs, out, index, weights, index, inputs, index, index, coming,
        index, index,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, paired = Lanes(context, builder, signature), bool(pairs.literal_value)
        sum_up = sum_pair_products if paired else sum_products
        results = sum_up(
            lanes, lanes.quotient(args[10], 1 + paired), [lanes.constant(0.0)] * (height * width),
            width, lanes.pointer(6, *args[6:8]), lanes.pointer(8, *args[8:10]), lanes.integer(row),
            lanes.pointer(11, *args[11:13]), args[13],
        )  # fmt: skip
        if paired:
            results = in_order(lanes, results, width)
        target = lanes.pointer(4, *args[4:6])
        for number, value in enumerate(results):
            i, j = divmod(number, width)
            lanes.store(value, lanes.at(target, i * row + j * lanes.width))
        return context.get_dummy_value()

    return signature, generate


POINT: Final = TileFunction(point_tile, ("rows", "columns", "images", "pairs"))


def gather_moments(
    lanes: Lanes,
    results: list[Value],
    width: int,
    done: Value,
    sums: Value,
    pivots: Value,
    fresh: Value,
    real: Value,
) -> None:
    """Emit the sums of moments of a tile's results, see `correlation_tile`."""
    builder = lanes.builder
    for i in range(len(results) // width):
        with builder.if_then(builder.icmp_signed("<=", done, lanes.integer(i))):
            row, pivot = results[i * width : (i + 1) * width], lanes.at(pivots, i)
            with builder.if_then(fresh):
                builder.store(lanes.first(row[0]), pivot)
            add_moments(lanes, row, pivot, lanes.at(sums, 2 * i * lanes.width), real)


def add_moments(lanes: Lanes, row: list[Value], pivot: Value, sums: Value, real: Value) -> None:
    """Emit the sums of moments of a row: neighbouring vectors of one channel of one pixel."""
    at_squares, middle = lanes.at(sums, lanes.width), lanes.broadcast(pivot)
    carried = [lanes.load(sums), lanes.load(at_squares)]
    for j, value in enumerate(row):
        centred = lanes.keep(lanes.subtract(value, middle), lanes.at(real, j * lanes.width))
        carried = accumulate(lanes, carried, moments(centred))
    for total, place in zip(carried, (sums, at_squares), strict=True):
        lanes.store(total, place)


def _correlate(lanes: Lanes, args: Any, height: int, width: int, pairs: bool) -> list[Value]:
    """Emit the sums of a tile and their stores; return the sums."""
    images = args[5]
    weights, inputs = lanes.pointer(8, args[8], args[9]), lanes.pointer(10, args[10], args[11])
    table = lanes.pointer(12, args[12], lanes.product(args[13], 3))
    coming = lanes.pointer(19, args[19], args[20])
    start = []
    for i in range(height):
        start += [lanes.broadcast(lanes.pointer(6, args[6], args[7], i))] * width
    sum_up = sum_pair_products if pairs else sum_products

    def segment(number: Value, sums: list[Value]) -> list[Value]:
        entry = lanes.at(table, lanes.product(number, 3))
        place = lanes.load_integer(entry)
        row = lanes.load_integer(lanes.at(entry, 1))
        steps = lanes.load_integer(lanes.at(entry, 2))
        if pairs:
            row, steps = lanes.quotient(row, 2), lanes.quotient(steps, 2)
        return sum_up(
            lanes, steps, sums, width, lanes.at(weights, lanes.product(row, height)),
            lanes.at(inputs, place), images, lanes.at(coming, place), args[21],
        )  # fmt: skip

    target, masking = lanes.pointer(3, args[3], args[4]), lanes.pointer(15, args[15], args[16])
    fetch_targets(lanes, height, width, target, masking, images, args[17])
    results = lanes.loop(args[14], start, segment, maybe_none=True)
    if pairs:
        results = in_order(lanes, results, width)
    store_results(lanes, results, width, target, masking, images, args[17], args[18])
    return results


def sum_products(
    lanes: Lanes,
    steps: Value,
    sums: list[Value],
    width: int,
    weights: Value,
    inputs: Value,
    images: Value,
    coming: Value,
    coming_step: Value,
    maybe_none: bool = False,
) -> list[Value]:
    """Emit the loop of all tiles: add weights x inputs of `steps` channels to `sums`."""
    height = len(sums) // width

    def step(t: Value, sums: list[Value]) -> list[Value]:
        source = lanes.at(inputs, lanes.product(t, images))
        vectors = [lanes.load(lanes.at(source, j * lanes.width)) for j in range(width)]
        lanes.prefetch(lanes.at(coming, lanes.product(t, coming_step)), level=2)
        factors = lanes.at(weights, lanes.product(t, height))
        results = []
        for i in range(height):
            weight = lanes.broadcast(lanes.at(factors, i))
            for j in range(width):
                results.append(lanes.fma(weight, vectors[j], sums[i * width + j]))
        return results

    return lanes.loop(steps, sums, step, maybe_none)


def sum_pair_products(
    lanes: Lanes,
    steps: Value,
    sums: list[Value],
    width: int,
    weights: Value,
    inputs: Value,
    images: Value,
    coming: Value,
    coming_step: Value,
) -> list[Value]:
    """Emit `sum_products` of bfloat16, `steps` pairs of channels: see `emit.bfloat16.sum_pairs`."""
    height = len(sums) // width

    def weight(pair: Value, row: int) -> Value:
        return lanes.at(weights, lanes.product(pair, height), row)

    def fetch(channel: Value) -> None:
        lanes.prefetch(lanes.at(coming, lanes.product(channel, coming_step)), level=2)

    return sum_pairs(lanes, steps, sums, width, inputs, images, weight, fetch)


def store_results(
    lanes: Lanes,
    results: list[Value],
    width: int,
    target: Value,
    masking: Value,
    images: Value,
    mode: Value,
    done: Value,
) -> None:
    """Emit the stores of a tile in the way that `mode` tells at run time."""
    builder = lanes.builder

    def store(way: int) -> None:
        for i in range(len(results) // width):
            row = results[i * width : (i + 1) * width]
            if way & ADD:
                with builder.if_then(builder.icmp_signed("<=", done, lanes.integer(i))):
                    _store_row(lanes, row, target, masking, lanes.product(images, i), way)
            else:
                _store_row(lanes, row, target, masking, lanes.product(images, i), way)

    lanes.choose(mode, WAYS, store)


def fetch_targets(
    lanes: Lanes,
    height: int,
    width: int,
    target: Value,
    masking: Value,
    images: Value,
    mode: Value,
) -> None:
    """Ask for what the stores will read, so that it arrives while the sums are made."""
    places = [
        (lanes.product(images, i), j * lanes.width) for i in range(height) for j in range(width)
    ]
    _fetch_if(lanes, mode, ADD, [lanes.at(target, *place) for place in places])
    _fetch_if(lanes, mode, MASK, [lanes.at(masking, *place) for place in places])


def _fetch_if(lanes: Lanes, mode: Value, bit: int, places: list[Value]) -> None:
    builder = lanes.builder
    wanted = builder.icmp_signed("!=", builder.and_(mode, lanes.integer(bit)), lanes.integer(0))
    with builder.if_then(wanted):
        for place in places:
            lanes.prefetch(place)


def _store_row(
    lanes: Lanes, row: list[Value], target: Value, mask: Value, place: Value, way: int
) -> None:
    for j, value in enumerate(row):
        shift = place, j * lanes.width
        store_in_a_way(lanes, value, lanes.at(target, *shift), lanes.at(mask, *shift), way)
