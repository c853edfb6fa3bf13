# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Strassen's sums of weights and inputs, and the register tiles of his products, as intrinsics.

Winograd's form of the algorithm for results C = A B in halves, see `strassen`. Every index counts
floats; bounds are the caller's responsibility.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.lanes import Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.direct_tiles import (
    fetch_targets,
    gather_moments,
    store_results,
    sum_products,
)

_INT = types.int64


@tile
def weights_sums_tile(
    typingctx: Any, out: Any, out_index: Any, out_part: Any,
    weights: Any, first: Any, right: Any, below: Any, diagonal: Any,
) -> Any:  # fmt: skip
    """Write a vector of A11, A12, S4, A22, S1, S2, S3 and A21, `out_part` floats apart.

    S1 = A21 + A22, S2 = S1 - A11, S3 = A11 - A21, S4 = A12 - S2; A11 is read at weights[first],
    A12 at weights[right], A21 at weights[below], A22 at weights[diagonal].
    """
    signature = types.void(out, _INT, _INT, weights, _INT, _INT, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        a11, a12, a21, a22 = (lanes.load(lanes.pointer(3, args[3], at)) for at in args[4:8])
        s1 = lanes.add(a21, a22)
        s2 = lanes.subtract(s1, a11)
        s3, s4 = lanes.subtract(a11, a21), lanes.subtract(a12, s2)
        target = lanes.pointer(0, args[0], args[1])
        for part, value in enumerate((a11, a12, s4, a22, s1, s2, s3, a21)):
            lanes.store(value, lanes.at(target, lanes.product(args[2], part)))
        return context.get_dummy_value()

    return signature, generate


@tile
def inputs_sums_tile(
    typingctx: Any, out: Any, out_index: Any, out_part: Any,
    inputs: Any, first: Any, second: Any, half: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write `vectors` vectors of T1, T2, T3 and T4, `out_part` floats apart.

    T1 = B12 - B11, T2 = B22 - T1, T3 = B22 - B12, T4 = B21 - T2; B11 is read from inputs[first] on,
    B12 from inputs[second], B21 and B22 `half` floats behind them.
    """
    signature = types.void(out, _INT, _INT, inputs, _INT, _INT, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        upper = [lanes.pointer(3, args[3], at) for at in args[4:6]]
        lower = [lanes.at(pointer, args[6]) for pointer in upper]
        target = lanes.pointer(0, args[0], args[1])

        def vector(number: Value, _: list[Value]) -> list[Value]:
            shift = lanes.product(number, lanes.width)
            b11, b12, b21, b22 = (lanes.load(lanes.at(at, shift)) for at in (*upper, *lower))
            t1 = lanes.subtract(b12, b11)
            t2 = lanes.subtract(b22, t1)
            t3, t4 = lanes.subtract(b22, b12), lanes.subtract(b21, t2)
            for part, value in enumerate((t1, t2, t3, t4)):
                lanes.store(value, lanes.at(target, shift, lanes.product(args[2], part)))
            return []

        lanes.loop(args[7], [], vector)
        return context.get_dummy_value()

    return signature, generate


@tile
def partial_tile(
    typingctx: Any, rows: Any, columns: Any, starts: Any, partial: Any, out: Any, first: Any,
    second: Any, weights: Any, weights_index: Any, inputs: Any, inputs_index: Any, images: Any,
    steps: Any, coming: Any, coming_index: Any, coming_step: Any,
) -> Any:  # fmt: skip
    """Write a sum that others go on from: partial[out + (i*columns + j)*LANES + lane].

    It is that of `starts` partial sums (none, the first, both), which lie at `first` and
    `second` in the same way, and of weights[weights_index + t*rows + i]
    * inputs[inputs_index + t*images + j*LANES + lane] over t < steps, steps >= 1. What is `coming`
    is fetched as in `correlation_tile`.
    """
    signature = types.void(
        rows, columns, starts, partial, _INT, _INT, _INT, weights, _INT, inputs, _INT, _INT, _INT,
        coming, _INT, _INT,
    )  # fmt: skip
    height, width, terms = rows.literal_value, columns.literal_value, starts.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        before = [lanes.pointer(3, args[3], at) for at in args[5 : 5 + terms]]
        results = sum_products(
            lanes, args[12], _sums_of(lanes, before, height * width), width,
            lanes.pointer(7, args[7], args[8]), lanes.pointer(9, args[9], args[10]), args[11],
            lanes.pointer(13, args[13], args[14]), args[15],
        )  # fmt: skip
        target = lanes.pointer(3, args[3], args[4])
        for i, value in enumerate(results):
            lanes.store(value, lanes.at(target, i * lanes.width))
        return context.get_dummy_value()

    return signature, generate


@tile
def finished_tile(
    typingctx: Any, rows: Any, columns: Any, starts: Any, partial: Any, first: Any, second: Any,
    weights: Any, weights_index: Any, inputs: Any, inputs_index: Any, images: Any, steps: Any,
    coming: Any, coming_index: Any, coming_step: Any, out: Any, out_index: Any, number: Any,
    bias: Any, mask: Any, mask_index: Any, mode: Any, done: Any, wanted: Any, sums: Any,
    pivots: Any, fresh: Any, bits: Any, bits_index: Any,
) -> Any:  # fmt: skip
    """Write the sum of a `partial_tile`, of steps >= 0 and plus bias[number + i], as results.

    They go to out[out_index + i*images + j*LANES + lane]; mask, ways and moments are those of
    `correlation_tile`, `sums` and `pivots` being of all filters.
    """
    signature = types.void(
        rows, columns, starts, partial, _INT, _INT, weights, _INT, inputs, _INT, _INT, _INT,
        coming, _INT, _INT, out, _INT, _INT, bias, mask, _INT, _INT, _INT, types.boolean, sums,
        pivots, types.boolean, bits, _INT,
    )  # fmt: skip
    height, width, terms = rows.literal_value, columns.literal_value, starts.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        before = [lanes.pointer(3, args[3], at) for at in args[4 : 4 + terms]]
        images, first, mode, done = args[10], args[17], args[21], args[22]
        target, masking = lanes.pointer(15, *args[15:17]), lanes.pointer(19, *args[19:21])
        fetch_targets(lanes, height, width, target, masking, images, mode)
        results = sum_products(
            lanes, args[11], _sums_of(lanes, before, height * width), width,
            lanes.pointer(6, *args[6:8]), lanes.pointer(8, *args[8:10]), images,
            lanes.pointer(12, *args[12:14]), args[14], maybe_none=True,
        )  # fmt: skip
        for i in range(height):
            constant = lanes.broadcast(lanes.pointer(18, args[18], first, i))
            for j in range(i * width, (i + 1) * width):
                results[j] = lanes.add(results[j], constant)
        store_results(lanes, results, width, target, masking, images, mode, done)
        with builder.if_then(args[23]):
            totals = lanes.pointer(24, args[24], lanes.product(first, 2 * lanes.width))
            pivots, real = lanes.pointer(25, args[25], first), lanes.pointer(27, *args[27:29])
            gather_moments(lanes, results, width, done, totals, pivots, args[26], real)
        return context.get_dummy_value()

    return signature, generate


_OF_A_SUM = ("rows", "columns", "starts")

PARTIAL: Final = TileFunction(partial_tile, _OF_A_SUM)
FINISHED: Final = TileFunction(finished_tile, _OF_A_SUM, bits=types.int32)


def _sums_of(lanes: Lanes, partial: list[Value], vectors: int) -> list[Value]:
    """Emit the sums of partial sums, vector by vector: of none, zeros."""
    found = []
    for i in range(vectors):
        terms = [lanes.load(lanes.at(pointer, i * lanes.width)) for pointer in partial]
        total = terms[0] if terms else lanes.constant(0.0)
        for term in terms[1:]:
            total = lanes.add(total, term)
        found.append(total)
    return found
