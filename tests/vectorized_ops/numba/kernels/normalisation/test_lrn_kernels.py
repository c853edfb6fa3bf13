from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.layout import pixels, zeros_images_last
from vectorized_ops.numba.kernels.normalisation import lrn_kernels as kernels
from vectorized_ops.numba.kernels.normalisation.lrn_tiles import SIZE

SHAPE = (48, 3, 4, 7)
AREA, CHANNELS, NUMBER = 12, 7, 48
FACTOR, BIAS = np.float32(0.2), np.float32(1.5)


def normal(seed: int) -> np.ndarray:
    array = zeros_images_last(SHAPE)
    array[...] = np.random.default_rng(seed).standard_normal(SHAPE)
    return array


def scratch(threads: int) -> np.ndarray:
    return np.full((threads, kernels.SCRATCH, CHANNELS * NUMBER), np.nan, np.float32)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_kernels_for_any_exponent_agree_with_those_for_three_quarters(threads: int) -> None:
    values, gradient, mask = normal(1), normal(2), normal(3)
    fast, slow, fast_back, slow_back = (normal(4) for _ in range(4))
    kernels.forward(
        *pixels(values), *pixels(fast), AREA, CHANNELS, NUMBER, FACTOR, BIAS, False, threads
    )
    kernels.any_forward(
        *pixels(values), *pixels(slow), AREA, CHANNELS, NUMBER, SIZE, FACTOR, np.float32(0.75),
        BIAS, scratch(threads),
    )  # fmt: skip
    assert_allclose(slow, fast, rtol=0, atol=2e-6)
    arrays = *pixels(values), *pixels(gradient)
    kernels.backward(
        *arrays, *pixels(fast_back), *pixels(mask), AREA, CHANNELS, NUMBER, FACTOR, BIAS, True,
        True, False, threads,
    )  # fmt: skip
    kernels.any_backward(
        *arrays, *pixels(slow_back), *pixels(mask), AREA, CHANNELS, NUMBER, SIZE, FACTOR,
        np.float32(0.75), BIAS, True, True, scratch(threads),
    )  # fmt: skip
    assert_allclose(slow_back, fast_back, rtol=0, atol=2e-6 * np.abs(fast_back).max())
    assert not fast_back[mask <= 0].any()
