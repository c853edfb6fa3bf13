from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.lrn import LocalResponseNormalisation


@settings(max_examples=80)
@given(data=st.data())
def test_outputs_and_gradients_follow_the_reference(
    data: st.DataObject,
    local_response_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        local_response_contract("numba", data.draw)


@pytest.mark.parametrize("beta", [0.75, 0.6])
def test_results_are_the_same_to_the_last_bit_for_any_number_of_threads(
    beta: float, same_bits: Callable[..., None]
) -> None:
    rng, shape = np.random.default_rng(0), (40, 4, 3, 9)
    values, gradient = activations(shape), activations(shape)
    values[:40], gradient[:40] = rng.standard_normal(shape), rng.standard_normal(shape)

    def compute() -> list[np.ndarray]:
        operation = LocalResponseNormalisation(5, 0.5, beta, 2.0)
        out, back = activations(shape), activations(shape)
        operation.forward(values, out)
        operation.backward(values, gradient, back)
        return [out, back]

    same_bits(compute)


def test_window_without_a_middle_is_refused() -> None:
    with pytest.raises(OperationError, match=r"4 channels .* odd"):
        LocalResponseNormalisation(4, 1e-4, 0.75, 1.0)
