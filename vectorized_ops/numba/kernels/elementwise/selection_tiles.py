# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops of selections of channels, as Numba intrinsics. Indices count elements."""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 4
"""Vectors between two jumps."""


@tile
def moved_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, vectors: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver values as they are, as `emit.gradient_store` describes."""
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, types.int64, types.boolean,
        types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, source = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4))
        delivery = Delivery(lanes, target, cut, *args[7:])

        def group(offset: Value, number: int) -> None:
            places = (lanes.at(source, offset, i * LANES) for i in range(number))
            delivery.write([lanes.load(place) for place in places], offset)

        groups(lanes, args[6], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


@tile
def nothing_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, vectors: Any, add: Any,
    masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver zeros."""
    signature = types.void(
        out, types.int64, mask, types.int64, types.int64, types.boolean, types.boolean,
        types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2))
        delivery = Delivery(lanes, target, cut, *args[5:])

        def group(offset: Value, number: int) -> None:
            delivery.write([lanes.constant(0.0)] * number, offset)

        groups(lanes, args[4], GROUP, group)
        return context.get_dummy_value()

    return signature, generate
