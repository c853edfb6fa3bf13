from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import vectorized_ops.torch._team  # noqa: F401 (lends its threads)
from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import STORED
from vectorized_ops.numba.kernels.channels_last import lrn as lrn
from vectorized_ops.reference.lrn import LocalResponseNormalisation

ALPHA, BIAS = 0.4, 2.0


def bits(*numbers: float) -> list[int]:
    return np.array(numbers).view(np.int64).tolist()


def run(
    values: np.ndarray, gradient: np.ndarray, size: int, quarters: int, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradient, each between rows that nobody may write."""
    forward, backward = lrn.kernels(size // 2, size // 2, quarters)
    outs = np.full((2, len(values) + 2, values.shape[1]), 77, values.dtype)
    factor = ALPHA / size
    numbers = bits(BIAS, factor, -2 * factor * quarters / 4, floor)
    for kernel, out in zip((forward, backward), outs, strict=True):
        arrays = [out[1:].ctypes.data, values.ctypes.data, gradient.ctypes.data]
        distances = [values.shape[1]] * 3
        given = np.array([3, *values.shape, 0, *numbers, *arrays, *distances, 0, 0, 0, 0], np.int64)
        kernel(given, values.dtype)
    assert (outs[:, [0, -1]] == 77).all()
    return outs[0, 1:-1], outs[1, 1:-1]


def reference(
    values: np.ndarray, gradient: np.ndarray, size: int, quarters: int
) -> tuple[np.ndarray, np.ndarray]:
    operation = LocalResponseNormalisation(size, ALPHA, quarters / 4, BIAS)
    images, slopes = (array.astype(np.float64)[None, None] for array in (values, gradient))
    out, back = np.empty_like(images), np.empty_like(images)
    operation.forward(images, out)
    operation.backward(images, slopes, back)
    return out[0, 0], back[0, 0]


@given(
    seed=st.integers(0, 99),
    number=st.integers(1, 9),
    channels=st.sampled_from([1, 2, 8, 15, 16, 17, 31, 32, 33, 50]),
    size=st.sampled_from([1, 3, 5, 17]),
    quarters=st.integers(1, 4),
    rectify=st.booleans(),
)
@settings(max_examples=60)
def test_values_and_gradients_equal_the_reference(
    seed: int, number: int, channels: int, size: int, quarters: int, rectify: bool
) -> None:
    rng = np.random.default_rng(seed)
    values, gradient = (
        rng.standard_normal((number, channels)).astype(np.float32) * 2 for _ in range(2)
    )
    found = run(values, gradient, size, quarters, 0.0 if rectify else math.nan)
    before = np.maximum(values, 0) if rectify else values
    expected = reference(before, gradient, size, quarters)
    assert_allclose(found[0], expected[0], rtol=0, atol=2e-6)
    assert_allclose(found[1], np.where(rectify & (values <= 0), 0, expected[1]), rtol=0, atol=4e-6)


@pytest.mark.parametrize("channels", [16, 33, 50])
def test_bfloat16_is_rounded_where_it_is_written(channels: int) -> None:
    rng = np.random.default_rng(0)
    given = [rounded(rng.standard_normal((9, channels)).astype(np.float32)) for _ in range(2)]
    found = run(*given, 5, 3, 0.0)
    expected = run(*map(widened, given), 5, 3, 0.0)
    assert found[0].dtype == STORED
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, rounded(other.copy()))


@pytest.mark.parametrize("floor", [0.0, math.nan])
def test_what_is_not_a_number_stays_in_its_window(floor: float) -> None:
    values, gradient = np.ones((1, 40), np.float32), np.ones((1, 40), np.float32)
    values[0, 20] = np.nan
    out, back = run(values, gradient, 5, 3, floor)
    assert np.isnan(out[0]).nonzero()[0].tolist() == [18, 19, 20, 21, 22]
    assert np.isnan(back[0]).nonzero()[0].tolist() == list(range(16, 25))
