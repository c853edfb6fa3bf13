# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops of parametric rectifiers, as Numba intrinsics. Indices count elements."""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import fold, groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 4
"""Vectors between two jumps."""


@tile
def parametric_tile(
    typingctx: Any, out: Any, out_index: Any, values: Any, values_index: Any, vectors: Any,
    slope: Any, past: Any,
) -> Any:  # fmt: skip
    """Write values * slope where they are below 0, and values elsewhere."""
    signature = types.void(
        out, types.int64, values, types.int64, types.int64, types.float32, types.boolean
    )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, *args[0:2]), lanes.pointer(2, *args[2:4])
        slope, zero = lanes.copies(args[5]), lanes.constant(0.0)

        def group(offset: Value, number: int) -> None:
            for i in range(number):
                value = lanes.load(lanes.at(source, offset, i * LANES))
                below = lanes.compare(value, "<", zero)
                result = lanes.select(below, lanes.multiply(value, slope), value)
                lanes.store_streamed(result, lanes.at(target, offset, i * LANES), args[6])

        groups(lanes, args[4], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


@tile
def parametric_gradient_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, gradient: Any, gradient_index: Any, vectors: Any, slope: Any, sums: Any,
    sums_index: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver gradient * slope where values are below 0, and the gradient elsewhere.

    To each of LANES `sums`, gradient * values is added where values are below 0.
    """
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, gradient, types.int64,
        types.int64, types.float32, sums, types.int64, types.boolean, types.boolean,
        types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, source, above = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4, 6))
        slope, zero = lanes.copies(args[9]), lanes.constant(0.0)
        delivery, total = Delivery(lanes, target, cut, *args[12:]), lanes.pointer(10, *args[10:12])

        def taken(offset: Value, number: int, sums: list[Value]) -> list[Value]:
            results, terms = [], []
            for i in range(number):
                value = lanes.load(lanes.at(source, offset, i * LANES))
                arriving = lanes.load(lanes.at(above, offset, i * LANES))
                below = lanes.compare(value, "<", zero)
                results.append(lanes.select(below, lanes.multiply(arriving, slope), arriving))
                # Values of images that only fill up a vector may be no numbers.
                none = lanes.compare(arriving, "==", zero)
                term = lanes.select(none, zero, lanes.multiply(arriving, value))
                terms.append(lanes.select(below, term, zero))
            delivery.write(results, offset)
            while len(terms) > 1:
                terms = [lanes.add(*terms[i : i + 2]) for i in range(0, len(terms), 2)]
            return [lanes.add(sums[0], terms[0])]

        whole = lanes.quotient(args[8], GROUP)
        found = fold(
            lanes, 0, whole, [lanes.load(total)],
            lambda index, sums: taken(lanes.product(index, GROUP * LANES), GROUP, sums),
        )  # fmt: skip
        found = fold(
            lanes, lanes.product(whole, GROUP), args[8], found,
            lambda index, sums: taken(lanes.product(index, LANES), 1, sums),
        )  # fmt: skip
        lanes.store(found[0], total)
        return context.get_dummy_value()

    return signature, generate
