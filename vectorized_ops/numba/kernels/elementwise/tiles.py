# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops of what is done value by value, as Numba intrinsics.

`vectors` vectors are taken in memory order. Indices count elements; `past` tells whether `out` is
stored past the caches.
"""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic.rectifier import at_least, bent, bent_gradient

GROUP = 4
"""Vectors between two jumps."""


@tile
def rectified_tile(
    typingctx: Any, out: Any, out_index: Any, inputs: Any, inputs_index: Any, vectors: Any,
    slope: Any, ceiling: Any, past: Any,
) -> Any:  # fmt: skip
    """Write values above zero up to the ceiling, and those below zero times the slope."""
    signature = types.void(
        out, types.int64, inputs, types.int64, types.int64, types.float32, types.float32,
        types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        top = lanes.copies(args[6])

        def group(offset: Value, number: int) -> None:
            values = [lanes.load(lanes.at(source, offset, i * LANES)) for i in range(number)]
            for i, value in enumerate(values):
                result = bent(lanes, value, args[5], top)
                lanes.store_streamed(result, lanes.at(target, offset, i * LANES), args[7])

        groups(lanes, args[4], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


@tile
def rectified_gradient_tile(
    typingctx: Any, out: Any, out_index: Any, gradient: Any, gradient_index: Any, outputs: Any,
    outputs_index: Any, vectors: Any, slope: Any, ceiling: Any, add: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver the gradient of the inputs of `rectified_tile`, told from its outputs."""
    signature = types.void(
        out, types.int64, gradient, types.int64, outputs, types.int64, types.int64, types.float32,
        types.float32, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        results = lanes.pointer(4, args[4], args[5])
        top = lanes.copies(args[8])
        delivery = Delivery(lanes, target, target, args[9], args[9].type(0), args[10])

        def group(offset: Value, number: int) -> None:
            slopes = []
            for i in range(number):
                value = lanes.load(lanes.at(source, offset, i * LANES))
                output = lanes.load(lanes.at(results, offset, i * LANES))
                slopes.append(bent_gradient(lanes, output, value, args[7], top))
            delivery.write(slopes, offset)

        groups(lanes, args[6], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


@tile
def sum_tile(
    typingctx: Any, out: Any, out_index: Any, left: Any, left_index: Any, right: Any,
    right_index: Any, vectors: Any, floor: Any, past: Any,
) -> Any:  # fmt: skip
    """Write left + right, or the floor where the sum is below it."""
    signature = types.void(
        out, types.int64, left, types.int64, right, types.int64, types.int64, types.float32,
        types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, floor = lanes.pointer(0, args[0], args[1]), lanes.copies(args[7])
        sources = [lanes.pointer(i, args[i], args[i + 1]) for i in (2, 4)]

        def group(offset: Value, number: int) -> None:
            for i in range(number):
                place = offset, i * LANES
                result = lanes.add(*(lanes.load(lanes.at(source, *place)) for source in sources))
                result = at_least(lanes, result, floor)
                lanes.store_streamed(result, lanes.at(target, *place), args[8])

        groups(lanes, args[6], GROUP, group)
        return context.get_dummy_value()

    return signature, generate
