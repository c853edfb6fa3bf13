from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contracts.memory import ROUNDED
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import operations
from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba import dense
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.dense import Dense


@settings(max_examples=40)
@given(data=st.data())
def test_all_directions_equal_the_reference_for_any_shape(
    data: st.DataObject, dense_contract: Callable[..., None]
) -> None:
    dense_contract("numba", data.draw)


@settings(max_examples=20)
@given(data=st.data())
def test_results_of_bfloat16_are_rounded_once(
    data: st.DataObject, dense_contract: Callable[..., None]
) -> None:
    dense_contract(ROUNDED, data.draw)


def computed(
    memory: Any, images: int, inputs: int, outputs: int, scratch: bool = False
) -> tuple[list[np.ndarray], ...]:
    """Results on random values, and the same in float64: outputs, inputs', weights' gradient."""
    rng = np.random.default_rng(1)
    shapes = [(images, inputs), (outputs, inputs), (outputs,), (images, outputs)]
    drawn = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    values, weights, bias, gradient = drawn
    place, operation = memory(operations("numba")), Dense(images, inputs, outputs)
    if scratch:
        given = aligned_zeros((operation.scratch_size + 5,))
        given[...] = np.nan
        operation.use_scratch(given[:-5])
    out, inputs_out = place.garbage(images, outputs), place.garbage(images, inputs)
    weights_out, bias_out = aligned_zeros(weights.shape), np.empty_like(bias)
    operation.forward(place.holding(values), weights, bias, out)
    operation.backward_data(place.holding(gradient), weights, inputs_out)
    padded = place.holding(gradient, padding=0)
    operation.backward_weights(place.holding(values), padded, weights_out, bias_out)
    if scratch:
        assert np.isnan(given[-5:]).all()
        assert np.isfinite(given).any()
    values, weights, bias, gradient = (array.astype(np.float64) for array in drawn)
    exact = [values @ weights.T + bias, gradient @ weights, gradient.T @ values, gradient.sum(0)]
    return [out[:images], inputs_out[:images], weights_out, bias_out], exact


@pytest.mark.parametrize("sizes", [(64, 800, 500), (32, 2048, 1000), (17, 601, 301)])
def test_rounding_stays_small_at_the_size_of_real_layers(
    sizes: tuple[int, ...], memory: Any
) -> None:
    for found, exact in zip(*computed(memory, *sizes), strict=True):
        assert np.abs(found - exact).max() < 2e-6 * np.abs(exact).max()


def test_neither_another_run_nor_threads_change_a_bit(
    memory: Any, same_bits: Callable[..., None]
) -> None:
    same_bits(lambda: computed(memory, 50, 677, 361)[0])


def test_scratch_memory_may_be_given_and_hold_anything(memory: Any) -> None:
    own, given = (computed(memory, 33, 77, 300, scratch)[0] for scratch in (False, True))
    for expected, found in zip(own, given, strict=True):
        assert_array_equal(found, expected)


def test_gradient_that_no_cache_holds_is_written_past_them(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def always(out: np.ndarray, written: int) -> bool:
        asked.append((out.shape, written))
        return True

    expected, _ = computed(memory, 16, 96, 40)
    monkeypatch.setattr(dense, "streamed", always)
    found, _ = computed(memory, 16, 96, 40)
    assert asked == [((40, 96), 40 * 96 * 4)]
    assert_array_equal(found[2], expected[2])
    computed(memory, 16, 97, 40)  # rows that begin anywhere cannot be
    assert len(asked) == 1


@pytest.mark.parametrize("sizes", [(0, 5, 5), (5, 0, 5), (5, 5, 0)])
def test_layers_of_nothing_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(OperationError, match="expected at least one of each"):
        Dense(*sizes)


def test_vectors_of_other_shapes_are_refused_not_read_past_their_end() -> None:
    operation, weights = Dense(32, 5, 7), np.zeros((7, 5), np.float32)
    for values, out in [((16, 5), (32, 7)), ((32, 5), (16, 7)), ((32, 4), (32, 7))]:
        with pytest.raises(OperationError, match=r"5 inputs to 7 outputs: expected shape \(32, "):
            operation.forward(activations(values), weights, None, activations(out))


def test_vectors_of_another_type_than_is_kept_are_refused() -> None:
    inputs, out = activations((16, 4), np.uint16), activations((16, 2))
    with pytest.raises(OperationError, match=r"type uint16 .* float32 or what is kept, float32"):
        Dense(16, 4, 2).forward(inputs, np.zeros((2, 4), np.float32), None, out)
