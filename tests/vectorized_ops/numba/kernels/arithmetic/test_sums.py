from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.kernels.arithmetic.sums import accumulate

from .lanewise import lanewise


def _both(lanes: Lanes, read: list[Value], _none: Value) -> tuple[Value, ...]:
    total, left, right = read
    return tuple(accumulate(lanes, [total, total], [left, (left, right)]))


def test_values_and_products_are_added_and_a_product_is_not_rounded_by_itself() -> None:
    near_one = np.float32(1 + 2**-12)
    value, product = lanewise(_both)([-1], [near_one], [near_one], results=2)
    assert_array_equal(value, np.float32(2**-12))
    assert_array_equal(product, np.float32(float(near_one) ** 2 - 1))
