from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.numba._lanes import AVX512, LANES, Lanes, tile
from vectorized_ops.numba.compiler import kernel, target_has_avx512


@tile
def largest_tile(typingctx: Any, best: Any, which: Any, values: Any) -> Any:
    """The largest of four vectors, and which it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        vectors = [lanes.load(lanes.pointer(2, args[2], i * LANES)) for i in range(4)]
        value, number = lanes.argmax(vectors)
        lanes.store(value, lanes.pointer(0, args[0]))
        lanes.store_bytes(number, lanes.pointer(1, args[1]))
        return context.get_dummy_value()

    return types.void(best, which, values), generate


@tile
def chosen_tile(typingctx: Any, out: Any, which: Any, values: Any) -> Any:
    """The lanes of a vector in which `which` is 200."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        number = lanes.load_bytes(lanes.pointer(1, args[1]))
        value = lanes.where_equal(number, 200, lanes.load(lanes.pointer(2, args[2])))
        lanes.store(value, lanes.pointer(0, args[0]))
        return context.get_dummy_value()

    return types.void(out, which, values), generate


@tile
def arithmetic_tile(typingctx: Any, out: Any, values: Any, steps: Any) -> Any:
    """Sums, differences, products, broadcasts, shuffles and a loop, one vector each."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        left, right = (lanes.load(lanes.pointer(1, args[1], i * LANES)) for i in range(2))
        (power,) = lanes.loop(
            args[2], [lanes.constant(1.0)], lambda step, values: [lanes.add(values[0], values[0])]
        )
        results = [
            lanes.add(left, right),
            lanes.subtract(left, right),
            lanes.multiply(left, right),
            lanes.fma(left, right, lanes.constant(-1.0)),
            lanes.broadcast(lanes.pointer(1, args[1], 3)),
            lanes.shuffle(left, right, range(LANES + 2, 2, -1)),
            power,
        ]
        for i, result in enumerate(results):
            lanes.store(result, lanes.pointer(0, args[0], i * LANES))
        part = lanes.shuffle(left, right, [1, LANES])
        lanes.store_part(part, lanes.pointer(0, args[0], len(results) * LANES))
        return context.get_dummy_value()

    return types.void(out, values, types.int64), generate


@kernel
def largest(best: Any, which: Any, values: Any) -> None:
    largest_tile(best, which, values)


@kernel
def chosen(out: Any, which: Any, values: Any) -> None:
    chosen_tile(out, which, values)


@kernel
def arithmetic(out: Any, values: Any, steps: int) -> None:
    arithmetic_tile(out, values, steps)


def test_a_vector_fills_a_register() -> None:
    assert target_has_avx512() is AVX512
    assert (64 if AVX512 else 32) == LANES * 4


def test_largest_is_the_first_of_equals_and_not_a_number_wins() -> None:
    columns = {
        (1, 2, 3, 4): (4, 3),
        (4, 3, 4, 4): (4, 0),
        (-1, -1, -1, -2): (-1, 0),
        (np.nan, 1, np.inf, 0): (np.nan, 0),
        (1, np.inf, np.nan, 5): (np.nan, 2),
        (-np.inf, -np.inf, -9, -np.inf): (-9, 2),
        (0.0, -0.0, 0.0, -0.0): (0, 0),
        (7, 9, 8, 9): (9, 1),
    }
    values = np.resize(np.array(list(columns), np.float32), (LANES, 4)).T.copy()
    best, which = np.empty(LANES, np.float32), np.empty(LANES, np.uint8)
    largest(best, which, values)
    expected = np.resize(np.array(list(columns.values())), (LANES, 2))
    assert_array_equal(best, expected[:, 0])
    assert_array_equal(which, expected[:, 1])


def test_lanes_are_chosen_by_a_byte_and_the_others_are_zero() -> None:
    which = np.resize(np.array([200, 72, 0, 255], np.uint8), LANES)  # 72 = 200 - 128
    values, out = np.full(LANES, np.nan, np.float32), np.empty(LANES, np.float32)
    values[::4] = 5
    chosen(out, which, values)
    assert_array_equal(out, np.resize([5, 0, 0, 0], LANES))


def test_arithmetic_is_that_of_each_lane() -> None:
    left = np.arange(LANES, dtype=np.float32) + np.float32(0.1)
    right = np.arange(LANES, dtype=np.float32)[::-1] - np.float32(0.3)
    out = np.full(8 * LANES, -1, np.float32)
    arithmetic(out, np.concatenate([left, right]), 5)
    once = (left.astype(np.float64) * right - 1).astype(np.float32)  # a double holds the product
    assert (once != left * right - 1).any()
    for row, expected in enumerate([left + right, left - right, left * right, once, left[3]]):
        assert_array_equal(out[row * LANES :][:LANES], np.broadcast_to(expected, LANES))
    both = np.concatenate([left, right])
    assert_array_equal(out[5 * LANES : 6 * LANES], both[LANES + 2 : 2 : -1])
    assert_array_equal(out[6 * LANES : 7 * LANES], np.full(LANES, 2.0**5))
    assert_array_equal(out[7 * LANES :], [left[1], right[0], *[-1] * (LANES - 2)])
