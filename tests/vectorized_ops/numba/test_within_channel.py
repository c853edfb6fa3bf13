from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.within_channel import WithinChannelNormalisation


@settings(max_examples=60)
@given(data=st.data())
def test_values_and_gradients_equal_the_reference(
    data: st.DataObject, within_channel_contract: Callable[..., None]
) -> None:
    within_channel_contract("numba", data.draw)


def test_window_without_a_middle_is_refused() -> None:
    with pytest.raises(OperationError, match=r"4 x 4 pixels .* odd"):
        WithinChannelNormalisation(4, 1e-4, 0.75)


def test_results_are_the_same_to_the_last_bit_for_any_number_of_threads(
    same_bits: Callable[..., None],
) -> None:
    rng, shape = np.random.default_rng(0), (40, 4, 3, 9)
    values, gradient = activations(shape), activations(shape)
    values[:40], gradient[:40] = rng.standard_normal((2, *shape))

    def compute() -> list[np.ndarray]:
        operation = WithinChannelNormalisation(3, 0.5, 0.75)
        out, back = activations(shape), activations(shape)
        operation.forward(values, out)
        operation.backward(values, gradient, back)
        return [out, back]

    same_bits(compute)
