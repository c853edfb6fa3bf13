from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectorized_ops.epilogue import RELU
from vectorized_ops.numba.arrays import activations
from vectorized_ops.numba.normalisation import BatchNormalisation


@settings(max_examples=60)
@given(data=st.data())
def test_statistics_outputs_and_gradients_follow_the_reference(
    data: st.DataObject,
    normalisation_contract: Callable[..., None],
    storing: Callable[[bool], AbstractContextManager[None]],
) -> None:
    with storing(data.draw(st.booleans())):
        normalisation_contract("numba", data.draw)


@pytest.mark.parametrize("channels", [7, 130])
def test_results_are_the_same_to_the_last_bit(
    channels: int, same_bits: Callable[..., None]
) -> None:
    rng, shape = np.random.default_rng(channels), (20, 9, 8, channels)
    values, gradient = activations(shape), activations(shape)
    values[:20], gradient[:20] = rng.standard_normal(shape), rng.standard_normal(shape)
    scale, shift = (rng.standard_normal(channels).astype(np.float32) for _ in range(2))

    def compute() -> list[np.ndarray]:
        operation = BatchNormalisation(*shape, 1e-5)
        mean, variance, scale_out, shift_out = np.zeros((4, channels), np.float32)
        out, back = activations(shape), activations(shape)
        operation.statistics(values, mean, variance)
        operation.forward(values, mean, variance, scale, shift, out, epilogue=RELU)
        operation.backward(
            values, gradient, mean, variance, scale, shift, RELU, scale_out, shift_out, back
        )
        return [mean, variance, out[:20], scale_out, shift_out, back]

    same_bits(compute, summed_by_thread=range(6))


def test_statistics_of_many_values_far_from_zero_are_those_of_doubles() -> None:
    rng, shape = np.random.default_rng(0), (32, 60, 50, 3)
    values = activations(shape)
    values[...] = 1000 + rng.standard_normal(shape) * np.array([0.01, 1, 100])
    mean, variance = np.zeros(3, np.float32), np.zeros(3, np.float32)
    BatchNormalisation(*shape, 1e-5).statistics(values, mean, variance)
    exact = values.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axis=(0, 1, 2)), rtol=1e-7)
    np.testing.assert_allclose(variance, exact.var(axis=(0, 1, 2)), rtol=3e-6)


def test_images_unlike_the_pixels_that_make_the_pivot_cost_little() -> None:
    values = activations((16, 32, 32, 1))  # 16 of 1024 pixels make the pivot
    values[:, ::2, 0] = 1000
    mean, variance = np.zeros(1, np.float32), np.zeros(1, np.float32)
    BatchNormalisation(16, 32, 32, 1, 1e-5).statistics(values, mean, variance)
    exact = values.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(), rtol=1e-6)
    np.testing.assert_allclose(variance, exact.var(), rtol=1e-5)
