# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The register tiles of dense layers, as Numba intrinsics.

`convolution.dot_tiles` says what all register tiles have in common.

A dense layer multiplies its weights with as many columns as the batch has images, two to eight
vectors. Each weight is used so rarely that fetching it takes about as long as computing with it. So
the tile prefetches the next block of weights while it computes on one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types

from vectorized_ops.numba.emit.bfloat16 import in_order, sum_pairs
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import AVX512, LANES, Lanes, Value, tile

ROWS = 14 if AVX512 else 6
"""Rows of a tile: two vectors wide, its results and operands fill the registers."""

WIDTH = 2 * LANES
"""Columns of a wide tile."""

_INT = types.int64


@tile
def adding_tile(
    typingctx: Any,
    columns: Any,
    out: Any,
    out_index: Any,
    out_row: Any,
    weights: Any,
    weights_index: Any,
    weights_row: Any,
    weights_step: Any,
    inputs: Any,
    inputs_index: Any,
    inputs_step: Any,
    steps: Any,
    ahead: Any,
    ahead_index: Any,
    ahead_offsets: Any,
) -> Any:
    """Add a tile of ROWS x `columns` vectors of a matrix product with broadcast weights.

    out[out_index + i*out_row + j*LANES + lane] += sum over t < steps of
    weights[weights_index + i*weights_row + t*weights_step]
    * inputs[inputs_index + t*inputs_step + j*LANES + lane];
    step t fetches the cache line of ahead[ahead_index + ahead_offsets[t]], which may not exist.
    Inputs of bfloat16 are multiplied in pairs of steps, of which there is an even number: a weight
    is then the pair of two, in the bits of a float32.
    """
    signature = types.void(
        columns, out, _INT, _INT, weights, _INT, _INT, _INT, inputs, _INT, _INT, _INT, ahead, _INT,
        ahead_offsets,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        far, table = lanes.pointer(12, args[12], args[13]), lanes.pointer(14, args[14])

        def fetch(step: Value) -> None:
            lanes.prefetch(lanes.at(far, lanes.load_integer(lanes.at(table, step))))

        width = signature.args[0].literal_value
        sum_up = _pair_sums if signature.args[8].dtype == types.uint16 else _sums
        sums = sum_up(lanes, width, args[4:], 4, fetch)
        target = lanes.pointer(1, args[1], args[2])
        for number, value in enumerate(sums):
            row = lanes.product(args[3], number // width)
            place = lanes.at(target, row, number % width * LANES)
            lanes.store(lanes.add(lanes.load(place), value), place)
        return context.get_dummy_value()

    return signature, generate


@tile
def writing_tile(
    typingctx: Any,
    out: Any,
    out_index: Any,
    out_row: Any,
    weights: Any,
    weights_index: Any,
    weights_row: Any,
    weights_step: Any,
    inputs: Any,
    inputs_index: Any,
    inputs_step: Any,
    steps: Any,
    past_caches: Any,
) -> Any:
    """Write a tile of ROWS x 2 vectors, as `adding_tile` computes it.

    Weights and inputs of uint32 are pairs of bfloat16, of two steps each. With `past_caches`, every
    row of the tile must begin at whole vectors of memory.
    """
    signature = types.void(
        out, _INT, _INT, weights, _INT, _INT, _INT, inputs, _INT, _INT, _INT, types.boolean
    )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target = lanes.pointer(0, args[0], args[1])
        multiply = lanes.add_pairs if signature.args[7].dtype == types.uint32 else lanes.fma
        for number, value in enumerate(_sums(lanes, 2, args[3:], 3, multiply=multiply)):
            row = lanes.product(args[2], number // 2)
            lanes.store_streamed(value, lanes.at(target, row, number % 2 * LANES), args[11])
        return context.get_dummy_value()

    return signature, generate


def _sums(
    lanes: Lanes,
    width: int,
    args: Any,
    first: int,
    each_step: Callable[[Value], None] | None = None,
    multiply: Callable[[Value, Value, Value], Value] | None = None,
) -> list[Value]:
    """Emit the sums of a tile; `args` are its arguments from number `first`, the weights, on."""
    weights = lanes.pointer(first, args[0], args[1])
    source = lanes.pointer(first + 4, args[4], args[5])
    rows = [lanes.product(args[2], i) for i in range(ROWS)]
    multiply = multiply or lanes.fma

    def body(step: Value, values: list[Value]) -> list[Value]:
        here = lanes.at(source, lanes.product(step, args[6]))
        vectors = [lanes.load(lanes.at(here, j * LANES)) for j in range(width)]
        at_step = lanes.at(weights, lanes.product(step, args[3]))
        results = []
        for i in range(ROWS):
            weight = lanes.broadcast(lanes.at(at_step, rows[i]))
            for j in range(width):
                results.append(multiply(weight, vectors[j], values[i * width + j]))
        if each_step is not None:
            each_step(step)
        return results

    return lanes.loop(args[7], [lanes.constant(0.0)] * (ROWS * width), body)


def _pair_sums(
    lanes: Lanes, width: int, args: Any, first: int, each_step: Callable[[Value], None]
) -> list[Value]:
    """Emit the sums of a tile of inputs in bfloat16; arguments are as in `_sums`."""
    weights = lanes.pointer(first, args[0], args[1])
    source = lanes.pointer(first + 4, args[4], args[5])

    def weight(pair: Value, row: int) -> Value:
        return lanes.at(weights, lanes.product(pair, args[3]), lanes.product(args[2], row))

    nothing = [lanes.constant(0.0)] * (ROWS * width)
    pairs = lanes.quotient(args[7], 2)
    sums = sum_pairs(lanes, pairs, nothing, width, source, args[6], weight, each_step)
    return in_order(lanes, sums, width)


@tile
def paired_tile(
    typingctx: Any, out: Any, out_index: Any, values: Any, values_index: Any, vectors: Any
) -> Any:
    """Write pairs of neighbours among values, LANES pairs to each of `vectors` vectors."""
    signature = types.void(out, _INT, values, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, *args[:2]), lanes.pointer(2, *args[2:4])

        def vector(number: Value) -> None:
            begin = lanes.product(number, 2 * LANES)
            halves = [lanes.load(lanes.at(source, begin, i * LANES)) for i in range(2)]
            evens, odds = (
                lanes.shuffle(halves[0], halves[1], range(first, 2 * LANES, 2)) for first in (0, 1)
            )
            place = lanes.at(target, lanes.product(number, LANES))
            lanes.store(lanes.as_pairs(evens, odds), place)

        repeat(lanes, args[4], vector)
        return context.get_dummy_value()

    return signature, generate


@tile
def joined_rows_tile(
    typingctx: Any, out: Any, out_index: Any, first: Any, first_index: Any, second_index: Any,
    vectors: Any,
) -> Any:  # fmt: skip
    """Write the pairs of two rows of values, `vectors` vectors of them."""
    signature = types.void(out, _INT, first, _INT, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target = lanes.pointer(0, *args[:2])
        rows = [lanes.pointer(2, args[2], args[i]) for i in (3, 4)]

        def vector(number: Value) -> None:
            offset = lanes.product(number, LANES)
            both = [lanes.load(lanes.at(row, offset)) for row in rows]
            lanes.store(lanes.as_pairs(both[0], both[1]), lanes.at(target, offset))

        repeat(lanes, args[5], vector)
        return context.get_dummy_value()

    return signature, generate
