from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.layout import pixels, zeros_images_last
from vectorized_ops.numba.kernels.normalisation import within_channel_kernels as kernels

SHAPE = (32, 4, 5, 3)
HEIGHT, WIDTH, BLOCK = 4, 5, 96
FACTOR = np.float32(0.2)


def normal(seed: int) -> np.ndarray:
    array = zeros_images_last(SHAPE)
    array[...] = np.random.default_rng(seed).standard_normal(SHAPE)
    return array


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_three_quarters_agree_with_any_exponent_near_it(threads: int) -> None:
    values, gradient, mask = normal(1), normal(2), normal(3)
    size = threads * kernels.SCRATCH * HEIGHT * WIDTH * kernels.CHUNK
    scratch, results = np.full(size, np.nan, np.float32), []
    for beta in (np.float32(0.75), np.nextafter(np.float32(0.75), np.float32(1))):
        out, back = normal(4), normal(4)
        kernels.forward(
            *pixels(values), *pixels(out), HEIGHT, WIDTH, BLOCK, 3, FACTOR, beta, scratch, threads
        )
        kernels.backward(
            *pixels(values), *pixels(gradient), *pixels(back), *pixels(mask), HEIGHT, WIDTH, BLOCK,
            3, FACTOR, beta, True, True, scratch, threads,
        )  # fmt: skip
        assert not back[mask <= 0].any()
        results.append((out, back))
    for fast, slow in zip(*results, strict=True):
        assert_allclose(fast, slow, rtol=0, atol=4e-6)
