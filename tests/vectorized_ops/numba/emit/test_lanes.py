from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contracts.bfloat16 import nearest, paired
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import STORED, aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel, target_has_avx512
from vectorized_ops.numba.emit.lanes import AVX512, LANES, Lanes, tile


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


@tile
def compared_tile(typingctx: Any, out: Any, values: Any, scalar: Any, number: Any) -> Any:
    """What is made of two vectors, a float and an integer, one vector each."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        left, right = (lanes.load(lanes.pointer(1, args[1], i * LANES)) for i in range(2))
        numbers, seven, zero = lanes.lane_numbers(), lanes.same(args[3]), lanes.constant(0.0)
        value, place = lanes.larger(left, numbers, right, seven)
        results = [
            lanes.copies(args[2]),
            lanes.divide(left, right),
            lanes.square_root(right),
            lanes.select(lanes.compare(left, "<=", right), left, zero),
            lanes.where_same(numbers, seven, left),
            value,
            lanes.where_same(place, seven, lanes.constant(1.0)),
            lanes.keep(left, lanes.pointer(1, args[1], LANES)),
        ]
        for i, result in enumerate(results):
            lanes.store(result, lanes.pointer(0, args[0], i * LANES))
        return context.get_dummy_value()

    return types.void(out, values, types.float32, types.int64), generate


@tile
def integers_tile(typingctx: Any, value: Any) -> Any:
    """1000 times the quotient by 5, 100 times the remainder, and 3 more than the value."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        quotient = lanes.product(lanes.quotient(args[0], 5), 1000)
        remainder = lanes.product(lanes.remainder(args[0], 5), 100)
        return lanes.sum(lanes.sum(quotient, remainder), lanes.sum(args[0], 3))

    return types.int64(types.int64), generate


@tile
def streamed_tile(typingctx: Any, out: Any, values: Any, past: Any) -> Any:
    """A vector stored past the caches, or through them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        value = lanes.load(lanes.pointer(1, args[1]))
        lanes.store_streamed(value, lanes.pointer(0, args[0], LANES), args[2])
        return context.get_dummy_value()

    return types.void(out, values, types.boolean), generate


@tile
def conditional_tile(typingctx: Any, out: Any, values: Any, number: Any, size: Any) -> Any:
    """What is inside [0, size), a loop of `number` steps or none, one case of three, lane by lane.

    Prefetches from far outside of any memory in between.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        left, right = (lanes.load(lanes.pointer(1, args[1], i * LANES)) for i in range(2))
        one, zero = lanes.constant(1.0), lanes.constant(0.0)
        lanes.prefetch(lanes.pointer(1, args[1], 2**44))
        inside = builder.select(lanes.inside(args[2], args[3]), one, zero)
        power, total = lanes.loop(
            args[2],
            [one, zero],
            lambda step, values: [
                lanes.add(values[0], values[0]),
                lanes.add(values[1], values[0]),
            ],
            maybe_none=True,
        )
        results = [inside, power, total, lanes.zero_unless_positive(left, right)]
        for i, result in enumerate(results):
            lanes.store(result, lanes.pointer(0, args[0], i * LANES))

        def store(case: int) -> None:
            lanes.store(lanes.constant(10 * case), lanes.pointer(0, args[0], 4 * LANES))

        lanes.choose(args[2], (3, 1, 7), store)
        lanes.store(one, lanes.pointer(0, args[0], 5 * LANES))
        return context.get_dummy_value()

    return types.void(out, values, types.int64, types.int64), generate


@tile
def pairs_tile(typingctx: Any, out: Any, rows: Any, addends: Any) -> Any:
    """Pairs of two rows of bfloat16, their sums and squares with an addend, and the rows' bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        rows, addend = lanes.pointer(1, args[1]), lanes.load(lanes.pointer(2, args[2]))
        pairs = lanes.as_pairs(lanes.load(rows), lanes.load(lanes.at(rows, LANES)))
        results = [
            pairs,
            lanes.add_pairs(lanes.pairs_of_ones(), pairs, addend),
            lanes.add_pairs(pairs, pairs, addend),
            builder.bitcast(lanes.load_bits(rows, 2 * LANES), addend.type),
        ]
        for i, result in enumerate(results):
            lanes.store(result, lanes.pointer(0, args[0], i * LANES))
        return context.get_dummy_value()

    return types.void(out, rows, addends), generate


@tile
def first_tile(typingctx: Any, out: Any, values: Any, number: Any) -> Any:
    """The first floats of a vector, behind LANES others."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        value = lanes.load(lanes.pointer(1, args[1]))
        lanes.store_first(value, lanes.pointer(0, args[0], LANES), args[2])
        return context.get_dummy_value()

    return types.void(out, values, types.int64), generate


@kernel
def store_first(out: Any, values: Any, number: int) -> None:
    first_tile(out, values, number)


@kernel
def multiplied(out: Any, rows: Any, addends: Any) -> None:
    pairs_tile(out, rows, addends)


@kernel
def conditional(out: Any, values: Any, number: int, size: int) -> None:
    conditional_tile(out, values, number, size)


@kernel
def compared(out: Any, values: Any, scalar: Any, number: int) -> None:
    compared_tile(out, values, scalar, number)


@kernel
def integers(value: int) -> int:
    return integers_tile(value)


@kernel
def streamed(out: Any, values: Any, past: bool) -> None:
    streamed_tile(out, values, past)


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


@pytest.mark.parametrize("kept", ["float32", "bfloat16"])
def test_arithmetic_is_that_of_each_lane(kept: str) -> None:
    left = np.arange(LANES, dtype=np.float32) + np.float32(0.1)
    right = np.arange(LANES, dtype=np.float32)[::-1] - np.float32(0.3)
    out, given = np.full(8 * LANES, -1, np.float32), np.concatenate([left, right])
    if kept == "bfloat16":
        left, right = nearest(left), nearest(right)
        given = rounded(given)
    arithmetic(out, given, 5)
    once = (left.astype(np.float64) * right - 1).astype(np.float32)  # a double holds the product
    assert kept == "bfloat16" or (once != left * right - 1).any()
    for row, expected in enumerate([left + right, left - right, left * right, once, left[3]]):
        assert_array_equal(out[row * LANES :][:LANES], np.broadcast_to(expected, LANES))
    both = np.concatenate([left, right])
    assert_array_equal(out[5 * LANES : 6 * LANES], both[LANES + 2 : 2 : -1])
    assert_array_equal(out[6 * LANES : 7 * LANES], np.full(LANES, 2.0**5))
    assert_array_equal(out[7 * LANES :], [left[1], right[0], *[-1] * (LANES - 2)])


def test_comparisons_choose_lane_by_lane() -> None:
    left = np.arange(1, LANES + 1, dtype=np.float32)
    right = np.resize(np.array([2, 3, 0.25, np.nan, 100], np.float32), LANES)
    out = np.empty((8, LANES), np.float32)
    compared(out.reshape(-1), np.concatenate([left, right]), np.float32(0.1), 7)
    assert_array_equal(out[0], np.full(LANES, 0.1, np.float32))
    assert_array_equal(out[1], left / right)
    assert_array_equal(out[2], np.sqrt(right))
    assert_array_equal(out[3], np.where(left <= right, left, 0))
    assert_array_equal(out[4], np.where(np.arange(LANES) == 7, left, 0))
    above = (right > left) | np.isnan(right)
    assert_array_equal(out[5], np.where(above, right, left))
    assert_array_equal(out[6], above | (np.arange(LANES) == 7))
    kept = left.view(np.int32) & right.view(np.int32)
    assert_array_equal(out[7], kept.view(np.float32))


@pytest.mark.parametrize("number", [-3, 0, 1, 2, 7])
def test_cases_are_chosen_and_loops_run_maybe_not_at_all_as_a_number_says(number: int) -> None:
    left = np.resize(np.array([1, -1, 0, -0.0, np.nan, np.inf, -np.inf], np.float32), LANES)
    right = np.arange(LANES, dtype=np.float32)
    right[1], right[4] = np.nan, np.nan
    out, steps = np.empty((6, LANES), np.float32), max(number, 0)
    conditional(out.reshape(-1), np.concatenate([left, right]), number, 2)
    assert_array_equal(out[0], np.full(LANES, number in (0, 1)))
    assert_array_equal(out[1], np.full(LANES, 2**steps))
    assert_array_equal(out[2], np.full(LANES, 2**steps - 1))
    assert_array_equal(out[3], np.where(left <= 0, 0, right))
    assert_array_equal(out[4], np.full(LANES, 10 * number if number in (1, 7) else 30))
    assert_array_equal(out[5], np.ones(LANES))


def test_integers_are_divided_and_summed() -> None:
    assert integers(17) == 3000 + 200 + 17 + 3


@pytest.mark.parametrize("kept", [np.float32, STORED])
@pytest.mark.parametrize("past", [False, True])
def test_vectors_are_stored_past_the_caches_or_through_them(past: bool, kept: Any) -> None:
    out, values = aligned_zeros((3 * LANES,), kept), np.arange(LANES, dtype=np.float32) + 1
    streamed(out, values, past)
    assert_array_equal(widened(out).reshape(3, -1), [np.zeros(LANES), values, np.zeros(LANES)])


def test_pairs_of_rows_are_multiplied_and_added() -> None:
    first, second, addend = (np.arange(LANES, dtype=np.float32) + shift for shift in (-3, 2, 5))
    out = np.empty(4 * LANES, np.float32)
    multiplied(out, rounded(np.concatenate([first, second])), addend)
    pairs, sums, squares, loaded = out.reshape(4, -1)
    assert_array_equal(pairs.view(np.uint32), paired(first, second).view(np.uint32))
    assert_array_equal(sums, first + second + addend)
    assert_array_equal(squares, first**2 + second**2 + addend)
    assert_array_equal(loaded.view(np.uint16), rounded(np.concatenate([first, second])))


@pytest.mark.parametrize("number", [1, LANES - 1, LANES])
def test_the_first_lanes_are_stored_and_what_lies_behind_them_stays(number: int) -> None:
    out, values = np.full(3 * LANES, 77, np.float32), np.arange(LANES, dtype=np.float32)
    store_first(out, values, number)
    expected = np.full(3 * LANES, 77, np.float32)
    expected[LANES : LANES + number] = values[:number]
    assert_array_equal(out, expected)
