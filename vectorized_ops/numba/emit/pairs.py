"""Pairs of bfloat16 from two neighbouring rows of images, in the order that is cheapest to make."""

from __future__ import annotations

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value


def unpacked(lanes: Lanes, first: Value, second: Value, width: int) -> list[Value]:
    """Return vectors of pairs of neighbouring rows, as float32.

    One vector has the pairs in the order of the images. Of two vectors each takes half of the
    images of each 128 bits, as one instruction unpacks them.
    """
    size, kind = width * LANES, lanes.constant(0.0).type
    if width == 1:
        orders = [[lane + half * size for lane in range(LANES) for half in (0, 1)]]
    else:
        orders = [
            [
                begin + lane + half * size
                for begin in range(part, size, 8)
                for lane in range(4)
                for half in (0, 1)
            ]
            for part in (0, 4)
        ]
    return [lanes.builder.bitcast(lanes.shuffle(first, second, order), kind) for order in orders]


def in_order(lanes: Lanes, results: list[Value], width: int) -> list[Value]:
    """Return rows of so many vectors of `unpacked` in the order of the images."""
    if width == 1:
        return results
    order = [
        half * LANES + begin + lane
        for begin in range(0, LANES, 4)
        for half in (0, 1)
        for lane in range(4)
    ]
    return [
        lanes.shuffle(results[i], results[i + 1], part)
        for i in range(0, len(results), 2)
        for part in (order[:LANES], order[LANES:])
    ]
