from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.flow import fold, groups, if_any_is_nan, repeat, when
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile


@tile
def powers_tile(typingctx: Any, out: Any, first: Any, last: Any) -> Any:
    """1 doubled for each index from first to before last, and the sum of what it was before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)

        def body(index: Value, values: list[Value]) -> list[Value]:
            power, total = values
            return [lanes.add(power, power), lanes.add(total, power)]

        start = [lanes.constant(1.0), lanes.constant(0.0)]
        for i, value in enumerate(fold(lanes, args[1], args[2], start, body)):
            lanes.store(value, lanes.pointer(0, args[0], i * LANES))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64), generate


@tile
def visited_tile(typingctx: Any, out: Any, steps: Any, size: Any) -> Any:
    """Adds to each vector the number of vectors it was visited with."""
    number = size.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)

        def body(offset: Value, together: int) -> None:
            for i in range(together):
                place = lanes.pointer(0, args[0], offset, i * LANES)
                lanes.store(lanes.add(lanes.load(place), lanes.constant(together)), place)

        groups(lanes, args[1], number, body)
        return context.get_dummy_value()

    return types.void(out, types.int64, size), generate


@tile
def chosen_tile(typingctx: Any, out: Any, values: Any, flag: Any) -> Any:
    """Two vectors, one more if the flag is set; 100 more in the first if any lane is NaN."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        vectors = [lanes.load(lanes.pointer(1, args[1], i * LANES)) for i in range(2)]
        one, hundred = lanes.constant(1.0), lanes.constant(100.0)
        results = when(
            lanes, args[2], vectors, lambda values: [lanes.add(value, one) for value in values]
        )
        first = lanes.pointer(0, args[0])
        for i, result in enumerate(results):
            lanes.store(result, lanes.at(first, i * LANES))
        if_any_is_nan(lanes, vectors, lambda: lanes.store(lanes.add(results[0], hundred), first))
        return context.get_dummy_value()

    return types.void(out, values, types.boolean), generate


@tile
def counted_tile(typingctx: Any, out: Any, steps: Any) -> Any:
    """Adds one to the first `steps` vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)

        def body(index: Value) -> None:
            place = lanes.pointer(0, args[0], lanes.product(index, LANES))
            lanes.store(lanes.add(lanes.load(place), lanes.constant(1.0)), place)

        repeat(lanes, args[1], body)
        return context.get_dummy_value()

    return types.void(out, types.int64), generate


@kernel
def powers(out: Any, first: int, last: int) -> None:
    powers_tile(out, first, last)


@kernel
def visited(out: Any, steps: int) -> None:
    visited_tile(out, steps, 4)


@kernel
def chosen(out: Any, values: Any, flag: bool) -> None:
    chosen_tile(out, values, flag)


@kernel
def counted(out: Any, steps: int) -> None:
    counted_tile(out, steps)


@pytest.mark.parametrize(("first", "last", "steps"), [(0, 5, 5), (3, 5, 2), (2, 2, 0), (4, 1, 0)])
def test_values_are_carried_from_step_to_step_or_stay(first: int, last: int, steps: int) -> None:
    out = np.zeros((2, LANES), np.float32)
    powers(out, first, last)
    assert_array_equal(out, np.repeat([[2.0**steps], [2.0**steps - 1]], LANES, axis=1))


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_steps_without_values_are_counted(steps: int) -> None:
    out = np.zeros((4, LANES), np.float32)
    counted(out, steps)
    assert out[:, 0].tolist() == [1.0] * steps + [0.0] * (4 - steps)


@pytest.mark.parametrize(
    ("steps", "expected"), [(0, []), (3, [1] * 3), (4, [4] * 4), (9, [4] * 8 + [1])]
)
def test_vectors_are_visited_once_in_groups_and_the_rest_singly(
    steps: int, expected: list[int]
) -> None:
    out = np.zeros((10, LANES), np.float32)
    visited(out, steps)
    assert_array_equal(out, np.repeat([expected + [0] * (10 - steps)], LANES, axis=0).T)


def test_values_change_only_if_the_flag_is_set() -> None:
    values = np.arange(2 * LANES, dtype=np.float32)
    out = np.zeros_like(values)
    chosen(out, values, False)
    assert_array_equal(out, values)
    chosen(out, values, True)
    assert_array_equal(out, values + 1)


@pytest.mark.parametrize("lane", [0, LANES - 1, LANES, 2 * LANES - 1])
def test_one_lane_that_is_not_a_number_is_noticed(lane: int) -> None:
    values = np.arange(2 * LANES, dtype=np.float32)
    values[lane] = np.nan
    out = np.zeros_like(values)
    chosen(out, values, False)
    expected = values.copy()
    expected[:LANES] += 100
    assert_array_equal(out, expected)
