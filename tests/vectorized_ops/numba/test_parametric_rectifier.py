from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.parametric_rectifier import ParametricRectifier


@settings(max_examples=60)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject,
    parametric_rectifier_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        parametric_rectifier_contract("numba", data.draw)


def test_results_are_the_same_to_the_last_bit_for_any_number_of_threads(
    same_bits: Callable[..., None],
) -> None:
    rng, shape = np.random.default_rng(0), (40, 4, 3, 9)
    values, gradient = activations(shape), activations(shape)
    values[:40], gradient[:40] = rng.standard_normal((2, *shape))

    def compute() -> list[np.ndarray]:
        operation = ParametricRectifier()
        slopes, sums = np.linspace(0, 1, 9, dtype=np.float32), np.empty(9, np.float32)
        out, back = activations(shape), activations(shape)
        operation.forward(values, slopes, out)
        operation.backward(values, gradient, slopes, sums, back)
        return [out, back, sums]

    same_bits(compute)
