from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.channels_last.delivery import Delivery
from vectorized_ops.numba.kernels.channels_last.lanes import first_lanes
from vectorized_ops.reference.gradient import write_gradient

SOME = LANES - 3
"""Lanes of the second vector that are delivered."""


@tile
def delivering(
    typingctx: Any, out: Any, values: Any, mask: Any, add: Any, masked: Any, number: Any
) -> Any:
    """Deliver a whole vector and the first lanes of another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source, cut = (lanes.pointer(i, args[i]) for i in range(3))
        delivery = Delivery(lanes, args[3], args[4], ir.IntType(1)(0))
        for place, inside in ((0, None), (LANES, first_lanes(lanes, args[5]))):
            value = lanes.load(lanes.at(source, place))
            delivery.write([value], [lanes.at(target, place)], [lanes.at(cut, place)], inside)
        return context.get_dummy_value()

    flags = types.boolean, types.boolean
    return types.void(out, values, mask, *flags, types.int64), generate


@kernel
def deliver(out: Any, values: Any, mask: Any, add: bool, masked: bool, number: int) -> None:
    delivering(out, values, mask, add, masked, number)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_gradients_arrive_as_the_reference_has_it(add: bool, masked: bool) -> None:
    rng = np.random.default_rng(0)
    values, mask, out = rng.integers(-2, 3, (3, 2 * LANES)).astype(np.float32)
    mask[:4] = np.nan, np.inf, -np.inf, -0.0
    expected, last = out.copy(), LANES + SOME
    write_gradient(values[:last], expected[:last], add, mask[:last] if masked else None)
    deliver(out, values, mask, add, masked, SOME)
    assert_array_equal(out, expected)
