# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops of products of channels, as Numba intrinsics.

`vectors` vectors are taken in memory order. Indices count elements. Results are delivered as
`emit.gradient_store` describes.
"""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import fold, groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 4
"""Vectors between two jumps."""


@tile
def channel_product_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, factors: Any, factors_index: Any, vectors: Any, add: Any, masked: Any,
    past: Any,
) -> Any:  # fmt: skip
    """Deliver values * factors."""
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, factors, types.int64,
        types.int64, types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, source, scale = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4, 6))
        delivery = Delivery(lanes, target, cut, *args[9:])

        def group(offset: Value, number: int) -> None:
            results = []
            for i in range(number):
                left, right = (
                    lanes.load(lanes.at(begin, offset, i * LANES)) for begin in (source, scale)
                )
                results.append(lanes.multiply(left, right))
            delivery.write(results, offset)

        groups(lanes, args[8], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


@tile
def pixel_products_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, left: Any,
    left_index: Any, left_distance: Any, right: Any, right_index: Any, right_distance: Any,
    pixels: Any, vectors: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver the sums over pixels, which lie so far apart, of left * right."""
    signature = types.void(
        out, types.int64, mask, types.int64, left, types.int64, types.int64, right, types.int64,
        types.int64, types.int64, types.int64, types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, first, second = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4, 7))
        delivery = Delivery(lanes, target, cut, *args[12:])

        def group(offset: Value, number: int) -> None:
            def at_pixel(pixel: Value, sums: list[Value]) -> list[Value]:
                here = lanes.at(first, lanes.product(pixel, args[6]), offset)
                there = lanes.at(second, lanes.product(pixel, args[9]), offset)
                return [
                    lanes.fma(
                        lanes.load(lanes.at(here, i * LANES)),
                        lanes.load(lanes.at(there, i * LANES)),
                        total,
                    )
                    for i, total in enumerate(sums)
                ]

            start = [lanes.constant(0.0)] * number
            delivery.write(fold(lanes, 0, args[10], start, at_pixel), offset)

        groups(lanes, args[11], GROUP, group)
        return context.get_dummy_value()

    return signature, generate
