from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.arithmetic.exponential import exponential, exponential_minus_one


@tile
def exponential_tile(typingctx: Any, out: Any, less: Any, values: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        value = lanes.load(lanes.pointer(2, args[2], args[3]))
        lanes.store(exponential(lanes, value), lanes.pointer(0, args[0], args[3]))
        lanes.store(exponential_minus_one(lanes, value), lanes.pointer(1, args[1], args[3]))
        return context.get_dummy_value()

    return types.void(out, less, values, types.int64), generate


@kernel
def exponentials(out: Any, less: Any, values: Any) -> None:
    for index in range(0, len(values), LANES):
        exponential_tile(out, less, values, index)


def both(values: np.ndarray) -> np.ndarray:
    found = np.empty((2, len(values)), np.float32)
    exponentials(found[0], found[1], values.astype(np.float32))
    return found


@pytest.mark.parametrize(
    ("number", "function", "error"), [(0, np.exp, 1.5e-7), (1, np.expm1, 2e-7)], ids=["e^x", "-1"]
)
def test_exponentials_are_good_to_the_last_places(
    number: int, function: Callable[[np.ndarray], np.ndarray], error: float
) -> None:
    near = -np.logspace(-30, 0, 96)
    values = np.concatenate([np.linspace(-86.9, 0, 4000), near]).astype(np.float32)
    assert_allclose(both(values)[number], function(values.astype(np.float64)), rtol=error)


def test_exponential_of_what_is_far_below_zero_or_no_number() -> None:
    values = np.resize(np.array([-88, -1e30, -np.inf, np.nan, -0.0], np.float32), LANES)
    assert_array_equal(both(values)[0], np.resize([0, 0, 0, np.nan, 1], LANES))
    assert_array_equal(both(values)[1], np.resize([-1, -1, -1, np.nan, 0], LANES))
