from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba.dense import Dense


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, dense_contract: Callable[..., None]
) -> None:
    dense_contract("numba", data.draw, least_inputs=LANES)


def computed(memory: Any, images: int, inputs: int, outputs: int) -> tuple[list[np.ndarray], ...]:
    """Results on random values, and the same in float64: outputs, inputs', weights' gradient."""
    rng = np.random.default_rng(1)
    shapes = [(images, inputs), (outputs, inputs), (outputs,), (images, outputs)]
    drawn = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    values, weights, bias, gradient = drawn
    place, operation = memory(operations("numba")), Dense(images, inputs, outputs)
    out, inputs_out = place.garbage(images, outputs), place.garbage(images, inputs)
    weights_out, bias_out = np.empty_like(weights), np.empty_like(bias)
    operation.forward(place.holding(values), weights, bias, out)
    operation.backward_data(place.holding(gradient), weights, inputs_out)
    padded = place.holding(gradient, padding=0)
    operation.backward_weights(place.holding(values), padded, weights_out, bias_out)
    values, weights, bias, gradient = (array.astype(np.float64) for array in drawn)
    exact = [values @ weights.T + bias, gradient @ weights, gradient.T @ values, gradient.sum(0)]
    return [out[:images], inputs_out[:images], weights_out, bias_out], exact


def test_rounding_stays_small_at_the_size_of_lenet(memory: Any) -> None:
    for found, exact in zip(*computed(memory, 64, 800, 500), strict=True):
        assert np.abs(found - exact).max() < 2e-6 * np.abs(exact).max()


def test_neither_another_run_nor_threads_change_a_bit(
    memory: Any, same_bits: Callable[..., None]
) -> None:
    same_bits(lambda: computed(memory, 50, 77, 61)[0])


def test_fewer_inputs_than_lanes_are_refused_with_the_alternatives() -> None:
    with pytest.raises(OperationError, match=f"at least {LANES}; use the reference or the oneDNN"):
        Dense(16, LANES - 1, 10)
