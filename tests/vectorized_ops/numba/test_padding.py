from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.padding import Padding


@settings(max_examples=60)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject,
    padding_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        padding_contract("numba", data.draw)


def test_sides_below_0_are_refused() -> None:
    with pytest.raises(OperationError, match=r"padding by \(0, -1, 0, 0\)"):
        Padding((0, -1, 0, 0))


def test_results_are_the_same_to_the_last_bit_for_any_number_of_threads(
    same_bits: Callable[..., None],
) -> None:
    rng, shape = np.random.default_rng(0), (40, 4, 3, 9)
    values, gradient = activations(shape), activations(shape)
    values[:40], gradient[:40] = rng.standard_normal((2, *shape))

    def compute() -> list[np.ndarray]:
        operation = Padding((1, 0, 2, 1), -1.0)
        out = activations((40, 5, 6, 9))
        operation.forward(values, out)
        return [out]

    same_bits(compute)
