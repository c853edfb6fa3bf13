from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.layout import aligned_zeros, pixels, zeros_images_last
from vectorized_ops.numba.kernels.arithmetic.epilogue import FLOOR
from vectorized_ops.numba.kernels.normalisation import batch_kernels as kernels
from vectorized_ops.numba.kernels.normalisation.batch_tiles import (
    GRADIENT_SUMS,
    NORMALISE,
    VALUES_GRADIENT,
)

IMAGES, HEIGHT, WIDTH = 30, 5, 5
PIXELS = HEIGHT * WIDTH
CHANNELS = [3, 1025]
"""Few and many: shares begin and end within a pixel, or are whole pixels taken together."""


def normal(seed: int, channels: int) -> np.ndarray:
    array = zeros_images_last((32, HEIGHT, WIDTH, channels))
    array[...] = np.random.default_rng(seed).standard_normal(array.shape)
    return array


def real_images() -> np.ndarray:
    return np.where(np.arange(32) < IMAGES, np.int32(-1), np.int32(0))


def scratch(threads: int, channels: int) -> tuple[np.ndarray, np.ndarray]:
    sums, totals = (
        aligned_zeros((threads, channels * kernels.SUMS)),
        np.empty((threads, channels, 2)),
    )
    sums[...] = totals[...] = np.nan
    return sums, totals


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_share_the_statistics_evenly_and_completely(threads: int, channels: int) -> None:
    values = normal(1, channels)
    mean, variance, pivots = (np.empty(channels, np.float32) for _ in range(3))
    kernels.statistics(
        *pixels(values), PIXELS, IMAGES, real_images(), pivots, *scratch(threads, channels), mean,
        variance,
    )  # fmt: skip
    batch = values[:IMAGES].astype(np.float64)
    assert_allclose(mean, batch.mean(axis=(0, 1, 2)), rtol=0, atol=1e-7)
    assert_allclose(variance, batch.var(axis=(0, 1, 2)), rtol=1e-6)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_share_the_sums_of_gradients_evenly_and_completely(
    threads: int, channels: int
) -> None:
    values, gradient, rng = normal(1, channels), normal(2, channels), np.random.default_rng(3)
    mean, variance, scale, shift, scale_out, shift_out = rng.uniform(0.5, 2, (6, channels)).astype(
        np.float32
    )
    constants = aligned_zeros((kernels.CONSTANTS, channels))
    kernels.prepare(mean, variance, scale, shift, 0.1, constants)
    kernels.gradient_sums(
        GRADIENT_SUMS.address(FLOOR), *pixels(values), *pixels(gradient), PIXELS, IMAGES,
        real_images(), constants, *[np.float32(np.nan)] * 2, *scratch(threads, channels),
        scale_out, shift_out,
    )  # fmt: skip
    slopes = gradient[:IMAGES].astype(np.float64)
    normalised = (values[:IMAGES] - mean) / np.sqrt(variance.astype(np.float64) + 0.1)
    assert_allclose(shift_out, slopes.sum(axis=(0, 1, 2)), rtol=0, atol=1e-4)
    assert_allclose(scale_out, (slopes * normalised).sum(axis=(0, 1, 2)), rtol=0, atol=2e-4)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_share_what_is_written_evenly_and_completely(threads: int) -> None:
    channels = 3
    values, gradient, out, back = (normal(seed, channels) for seed in range(4))
    constants = aligned_zeros((kernels.CONSTANTS, channels))
    constants[...] = np.random.default_rng(5).standard_normal(constants.shape)
    mean, factor, shift, _, slope, level = constants
    kernels.forward(
        NORMALISE.address(FLOOR), *pixels(values), *pixels(values), *pixels(out), PIXELS, 32,
        constants, *[np.float32(-np.inf)] * 2, False, False, threads,
    )  # fmt: skip
    assert_allclose(out, (values - mean) * factor + shift, rtol=0, atol=1e-5)
    kernels.backward(
        VALUES_GRADIENT.address(FLOOR), *pixels(values), *pixels(gradient), *pixels(back), PIXELS,
        real_images(), constants, *[np.float32(np.nan)] * 2, False, False, threads,
    )  # fmt: skip
    expected = (gradient - level + (values - mean) * slope) * factor
    assert_allclose(back[:IMAGES], expected[:IMAGES], rtol=0, atol=1e-5)
    assert not back[IMAGES:].any()
