# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loop of affine functions, as a Numba intrinsic. Indices count elements."""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 4
"""Vectors between two jumps."""


@tile
def affine_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, vectors: Any, factor: Any, summand: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver factor * values + summand, rounded twice, as `emit.gradient_store` describes."""
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, types.int64, types.float32,
        types.float32, types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, source = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4))
        factor, summand = lanes.copies(args[7]), lanes.copies(args[8])
        delivery = Delivery(lanes, target, cut, *args[9:])

        def group(offset: Value, number: int) -> None:
            results = []
            for i in range(number):
                value = lanes.load(lanes.at(source, offset, i * LANES))
                results.append(lanes.add(lanes.multiply(value, factor), summand))
            delivery.write(results, offset)

        groups(lanes, args[6], GROUP, group)
        return context.get_dummy_value()

    return signature, generate
