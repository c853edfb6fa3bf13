from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.channels_last.lanes import (
    first_lanes,
    larger,
    load_lanes,
    smaller,
    store_lanes,
)


@tile
def masked_tile(typingctx: Any, out: Any, values: Any, number: Any) -> Any:
    """The first lanes; loaded lanes beyond them are stored behind them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        mask = first_lanes(lanes, args[2])
        value = load_lanes(lanes, lanes.pointer(1, args[1]), mask)
        target, past = lanes.pointer(0, args[0]), types.boolean
        store_lanes(lanes, value, target, mask, past)
        store_lanes(lanes, value, lanes.at(target, LANES), None, _flag(False))
        return context.get_dummy_value()

    return types.void(out, values, types.int64), generate


def _flag(value: bool) -> Any:
    from llvmlite import ir

    return ir.IntType(1)(value)


@tile
def extremes_tile(typingctx: Any, out: Any, left: Any, right: Any) -> Any:
    """The smaller and the larger of two integers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target = lanes.pointer(0, args[0])
        builder.store(smaller(lanes, args[1], args[2]), target)
        builder.store(larger(lanes, args[1], args[2]), lanes.at(target, 1))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64), generate


@kernel
def copy_lanes(out: Any, values: Any, number: int) -> None:
    masked_tile(out, values, number)


@kernel
def extremes(out: Any, left: int, right: int) -> None:
    extremes_tile(out, left, right)


@pytest.mark.parametrize("is_rounded", [False, True])
@pytest.mark.parametrize("number", [0, 1, LANES - 1, LANES])
def test_only_the_lanes_of_a_mask_are_read_and_written(number: int, is_rounded: bool) -> None:
    values = np.resize(np.array([-2, 3, np.nan, -np.inf, np.inf, -0.0], np.float32), LANES)
    out = np.full(2 * LANES, 77, np.float32)
    if is_rounded:
        stored = rounded(out)
        copy_lanes(stored, rounded(values[:number].copy()), number)
        out = widened(stored)
    else:
        copy_lanes(out, values[:number].copy(), number)
    assert_array_equal(out[:number], values[:number])
    assert (out[number:LANES] == 77).all()
    assert_array_equal(out[LANES:][:number], values[:number])
    assert (out[LANES + number :] == 0).all()


@pytest.mark.parametrize(("left", "right"), [(-3, 2), (2, -3), (5, 5)])
def test_integers_are_compared_with_their_sign(left: int, right: int) -> None:
    out = np.zeros(2, np.int64)
    extremes(out, left, right)
    assert out.tolist() == [min(left, right), max(left, right)]
