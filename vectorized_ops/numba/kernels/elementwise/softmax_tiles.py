# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The softmax of one vector of images, as a Numba intrinsic. Indices count elements."""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import fold
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic.exponential import exponential


@tile
def softmax_tile(
    typingctx: Any, gradient: Any, logits: Any, index: Any, row: Any, classes: Any, share: Any,
    factor: Any, count: Any, state: Any,
) -> Any:  # fmt: skip
    """Write (softmax - share) * factor of the first `count` images, zero in the others.

    Class k begins at index + k*row. For each image, `state` gets the largest logit, the sum of
    e^(logit - largest) over the classes and that of logit - largest: LANES of each.
    """
    signature = types.void(
        gradient, logits, types.int64, types.int64, types.int64, types.float32, types.float32,
        types.int64, state,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, args[0], args[2]), lanes.pointer(1, args[1], args[2])
        zero, classes = lanes.constant(0.0), args[4]

        def largest_of(number: Value, values: list[Value]) -> list[Value]:
            value = lanes.load(lanes.at(source, lanes.product(number, args[3])))
            best, _ = lanes.larger(values[0], lanes.lane_numbers(), value, lanes.lane_numbers())
            return [best]

        (largest,) = fold(lanes, 1, classes, [lanes.load(source)], largest_of)

        def summed(number: Value, sums: list[Value]) -> list[Value]:
            value = lanes.load(lanes.at(source, lanes.product(number, args[3])))
            shifted = lanes.subtract(value, largest)
            power = exponential(lanes, shifted)
            lanes.store(power, lanes.at(target, lanes.product(number, args[3])))
            return [lanes.add(sums[0], power), lanes.add(sums[1], shifted)]

        total, distance = fold(lanes, 0, classes, [zero, zero], summed)
        for i, value in enumerate((largest, total, distance)):
            lanes.store(value, lanes.pointer(8, args[8], i * LANES))
        share, factor = lanes.copies(args[5]), lanes.copies(args[6])
        inverse = lanes.divide(lanes.constant(1.0), total)
        real = builder.icmp_signed("<", lanes.lane_numbers(), lanes.same(args[7]))

        def scaled(number: Value, _values: list[Value]) -> list[Value]:
            place = lanes.at(target, lanes.product(number, args[3]))
            slope = lanes.subtract(lanes.multiply(lanes.load(place), inverse), share)
            lanes.store(lanes.select(real, lanes.multiply(slope, factor), zero), place)
            return []

        fold(lanes, 0, classes, [], scaled)
        return context.get_dummy_value()

    return signature, generate
