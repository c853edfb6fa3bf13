from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.response import ResponseNormalisation


class OfEachValue(ResponseNormalisation):
    """Whose window is the value itself."""

    def _window(self, values: AnyArray) -> AnyArray:
        return values


def test_values_and_slopes_are_those_of_the_formula() -> None:
    values, out, back = np.linspace(-2, 2, 9), np.empty(9), np.empty(9)
    tested = OfEachValue(0.5, 0.75, 2.0)
    tested.forward(values, out)
    scales = 2 + values**2 / 2
    assert_allclose(out, values * scales**-0.75)
    tested.backward(values, np.full(9, 3.0), back)
    assert_allclose(back, 3 * (scales**-0.75 - 0.75 * values**2 * scales**-1.75))
