from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue
from vectorized_ops.reference.normalisation import BatchNormalisation

SHAPE = (4, 3, 2, 2)
IMAGES = 3
"""Of the four; the last is no part of the batch."""


def drawn() -> list[np.ndarray]:
    """Values, gradient, scale and shift, in float64."""
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape) for shape in (SHAPE, SHAPE, (2,), (2,))]


def operation(epsilon: float = 0.1) -> BatchNormalisation:
    return BatchNormalisation(IMAGES, *SHAPE[1:], epsilon)


def normalised(
    values: np.ndarray, scale: np.ndarray, shift: np.ndarray, **options: Any
) -> np.ndarray:
    """Output by the statistics of the batch, zero behind the batch."""
    mean, variance, out = np.empty(2), np.empty(2), np.empty_like(values)
    operation().statistics(values, mean, variance)
    operation().forward(values, mean, variance, scale, shift, out, **options)
    out[IMAGES:] = 0
    return out


def test_statistics_are_those_of_the_batch_alone() -> None:
    values, *_ = drawn()
    values[IMAGES:] = np.nan
    mean, variance = np.empty(2), np.empty(2)
    operation().statistics(values, mean, variance)
    assert_allclose(mean, values[:IMAGES].reshape(-1, 2).mean(axis=0))
    assert_allclose(variance, values[:IMAGES].reshape(-1, 2).var(axis=0))


def test_hand_computed_output_with_addend_and_relu() -> None:
    values = np.array([-5, 1, 3], np.float32).reshape(1, 1, 3, 1)
    parameters = [np.array([value], np.float32) for value in (1, 3, 10, 1)]
    out, addend = np.empty_like(values), np.array([2, np.nan, 4], np.float32).reshape(1, 1, 3, 1)
    tested = BatchNormalisation(1, 1, 3, 1, 1.0)
    tested.forward(values, *parameters, out)
    assert_array_equal(out.ravel(), [-29, 1, 11])
    tested.forward(values, *parameters, out, addend=addend, epilogue=RELU)
    assert_array_equal(out.ravel(), [0, np.nan, 15])


def test_training_equals_that_of_pytorch() -> None:
    values, _, scale, shift = drawn()
    expected = torch.nn.functional.batch_norm(
        torch.from_numpy(values[:IMAGES]).permute(0, 3, 1, 2), None, None,
        torch.from_numpy(scale), torch.from_numpy(shift), training=True, eps=0.1,
    )  # fmt: skip
    found = normalised(values, scale, shift)
    assert_allclose(found[:IMAGES], expected.permute(0, 2, 3, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "epilogue",
    [IDENTITY, RELU, Epilogue(slope=0.1, ceiling=1.0), Epilogue("silu")],
    ids=["identity", "relu", "rectifier", "silu"],
)
def test_gradients_through_the_statistics_equal_finite_differences(
    epilogue: Epilogue, gradients_agree: Callable[..., None]
) -> None:
    values, gradient, scale, shift = drawn()
    mean, variance, scale_out, shift_out = np.empty((4, 2))
    operation().statistics(values, mean, variance)
    out = np.full_like(values, 99)
    operation().backward(
        values, gradient, mean, variance, scale, shift, epilogue, scale_out, shift_out, out
    )
    assert not out[IMAGES:].any()
    gradients_agree(
        lambda: normalised(values, scale, shift, epilogue=epilogue),
        gradient,
        [(values, out), (scale, scale_out), (shift, shift_out)],
        step=1e-5,
    )


def test_gradient_is_added_or_takes_the_place_of_the_one_given() -> None:
    values, gradient, scale, shift = drawn()
    mean, variance, scale_out, shift_out = np.empty((4, 2))
    operation().statistics(values, mean, variance)
    parameters = mean, variance, scale, shift, RELU, scale_out, shift_out
    expected, total, in_place = np.empty(SHAPE), np.ones(SHAPE), gradient.copy()
    operation().backward(values, gradient, *parameters, expected)
    operation().backward(values, gradient, *parameters, total, add=True)
    operation().backward(values, in_place, *parameters, in_place)
    assert_array_equal(total, expected + 1)
    assert_array_equal(in_place, expected)


@settings(max_examples=15)
@given(data=st.data())
def test_definition_keeps_its_own_contract(data: Any, normalisation_contract: Any) -> None:
    normalisation_contract("reference", data.draw)
