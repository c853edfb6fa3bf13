from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value
from vectorized_ops.numba.kernels.arithmetic.rectifier import (
    at_least,
    bent,
    bent_gradient,
    rectified,
)

from .lanewise import lanewise

VALUES = np.resize(np.array([-2, 0, 3, 7, np.nan, -np.inf, np.inf, -0.5], np.float32), LANES)


def _bent(lanes: Lanes, read: list[Value], slope: Value) -> tuple[Value, ...]:
    return (bent(lanes, read[0], slope, read[1]),)


def _bent_gradient(lanes: Lanes, read: list[Value], slope: Value) -> tuple[Value, ...]:
    output, arriving, ceiling = read
    return (bent_gradient(lanes, output, arriving, slope, ceiling),)


bend, bend_gradient = lanewise(_bent), lanewise(_bent_gradient)


def test_a_value_below_the_floor_becomes_it_and_a_nan_stays() -> None:
    floored = lanewise(lambda lanes, read, floor: (at_least(lanes, read[0], lanes.copies(floor)),))
    assert_array_equal(floored(VALUES, scalar=1)[0], np.maximum(VALUES, 1))
    assert_array_equal(floored(VALUES, scalar=np.nan)[0], VALUES)


def test_rectified() -> None:
    relu = lanewise(lambda lanes, read, _none: (rectified(lanes, read[0]),))
    assert_array_equal(relu(VALUES)[0], np.maximum(VALUES, 0))


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_bent_below_zero_and_cut_at_the_ceiling(slope: float) -> None:
    below = VALUES * slope if slope else np.zeros_like(VALUES)
    expected = np.where(VALUES < 0, below, np.minimum(VALUES, 6))
    assert_array_equal(bend(VALUES, [6], scalar=slope)[0], expected)


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_gradient_of_what_was_bent_is_told_from_the_output(slope: float) -> None:
    arriving = np.arange(1, LANES + 1, dtype=np.float32)
    outputs = bend(VALUES, [6], scalar=slope)[0]
    expected = np.where(outputs <= 0, arriving * slope, np.where(outputs >= 6, 0, arriving))
    assert_array_equal(bend_gradient(outputs, arriving, [6], scalar=slope)[0], expected)
