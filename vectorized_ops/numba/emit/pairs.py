"""Pairs of bfloat16 from two neighbouring rows of images, in the order that is cheapest to make."""

from __future__ import annotations

from collections.abc import Callable

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value


def sum_pairs(
    lanes: Lanes,
    pairs: Value,
    sums: list[Value],
    width: int,
    inputs: Value,
    row: Value,
    weight: Callable[[Value, int], Value],
    ahead: Callable[[Value], None],
) -> list[Value]:
    """Emit the loop that adds weights x inputs to `sums`, rows of `width` vectors.

    Two rows of inputs in bfloat16, which lie `row` elements apart, make a pair. `weight(t, i)` is
    the address of the weights of pair t for row i, a pair in the bits of a float32; `ahead(r)`
    fetches what is wanted after row r. Sums stay in the order of `unpacked`, see `in_order`.
    """
    height = len(sums) // width

    def body(pair: Value, sums: list[Value]) -> list[Value]:
        rows = [lanes.sum(lanes.product(pair, 2), number) for number in (0, 1)]
        starts = [lanes.at(inputs, lanes.product(each, row)) for each in rows]
        both = [lanes.load_bits(start, width * LANES) for start in starts]
        vectors, results = unpacked(lanes, both[0], both[1], width), []
        for each in rows:
            ahead(each)
        for i in range(height):
            factor = lanes.broadcast(weight(pair, i))
            for j in range(width):
                results.append(lanes.add_pairs(factor, vectors[j], sums[i * width + j]))
        return results

    return lanes.loop(pairs, sums, body)


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
