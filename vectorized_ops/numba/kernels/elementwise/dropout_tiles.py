# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loop of dropout, as a Numba intrinsic."""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import fold, groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.reference.dropout import MULTIPLIERS, SHIFTS


@tile
def kept_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, rows: Any, vectors: Any, number: Any, step: Any, numbers: Any, key: Any,
    drop_below: Any, factor: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver those values whose number's hash is not below the bound, times the factor.

    Row r of `vectors` vectors holds the values numbered number + r * step + image * numbers.
    """
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, types.int64, types.int64,
        types.int64, types.int64, types.int64, types.int64, types.int64, types.float32,
        types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        source, delivery = lanes.pointer(4, *args[4:6]), Delivery(lanes, target, cut, *args[14:])
        between, key, bound = (lanes.same(args[i]) for i in (10, 11, 12))
        lane_numbers = builder.mul(lanes.lane_numbers(), between)
        factor = lanes.copies(args[13])

        def row(index: Value, _values: list[Value]) -> list[Value]:
            first = builder.add(args[8], lanes.product(index, args[9]))
            start = lanes.product(lanes.product(index, args[7]), LANES)

            def group(offset: Value, count: int) -> None:
                results = []
                for i in range(count):
                    image = lanes.product(builder.add(offset, lanes.integer(i * LANES)), args[10])
                    numbers = builder.add(lane_numbers, lanes.same(builder.add(first, image)))
                    kept = builder.icmp_unsigned(
                        ">=", hashed(lanes, builder, builder.xor(numbers, key)), bound
                    )
                    value = lanes.load(lanes.at(source, start, offset, i * LANES))
                    scaled = lanes.multiply(value, factor)
                    results.append(lanes.select(kept, scaled, lanes.constant(0.0)))
                delivery.write(results, builder.add(start, offset))

            groups(lanes, args[7], 2, group)
            return []

        fold(lanes, 0, args[6], [], row)
        return context.get_dummy_value()

    return signature, generate


def hashed(lanes: Lanes, builder: Any, numbers: Value) -> Value:
    """Return the hash of lane integers that `vectorized_ops.reference.dropout` defines."""

    def mixed(value: Value, shift: int) -> Value:
        return builder.xor(value, builder.lshr(value, lanes.same(lanes.integer(shift))))

    numbers = mixed(numbers, SHIFTS[0])
    for multiplier, shift in zip(MULTIPLIERS, SHIFTS[1:], strict=True):
        numbers = mixed(builder.mul(numbers, lanes.same(lanes.integer(multiplier))), shift)
    return numbers
