"""Strassen's loops; what they compute is tested with the convolution that calls them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit.lanes import AVX512, LANES
from vectorized_ops.numba.kernels.convolution.direct import block_size, weights_step
from vectorized_ops.numba.kernels.convolution.strassen import PARTS, pack_parts, strassen_kernel

ROWS = 11 if AVX512 else 5
"""A tile's height: it overlaps the last one of each number of filters here."""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("filters", "channels"), [(32, 32), (33, 47), (64, 32)])
def test_parts_of_weights_are_packed_in_blocks_of_which_the_last_overlaps(
    filters: int, channels: int, backward: bool, threads: int
) -> None:
    rows = ROWS
    whole = np.random.default_rng(0).integers(-3, 4, (2 * filters, 2 * channels))
    weights = aligned_zeros((whole.size,))
    weights[...] = (whole.T if backward else whole).reshape(-1)
    (a11, a12), (a21, a22) = (
        (lines[:, :channels], lines[:, channels:]) for lines in (whole[:filters], whole[filters:])
    )
    s1 = a21 + a22
    s2 = s1 - a11
    expected = [a11, a12, a12 - s2, a22, s1, s2, a11 - a21, a21]
    blocks, size = -(-filters // rows), block_size(rows, channels)
    out = aligned_zeros((PARTS, weights_step(blocks, rows, channels)))
    scratch = aligned_zeros((threads, 4 * LANES * LANES))
    scratch[...] = np.nan
    pack_parts(weights, out.reshape(-1), rows, filters, channels, backward, scratch)
    for number, sums in enumerate(expected):
        for block in range(blocks):
            first = min(block * rows, filters - rows)
            found = out[number, block * size :][: channels * rows].reshape(channels, rows)
            assert_array_equal(found, sums[first : first + rows].T)


@pytest.mark.parametrize(("by_pixels", "by_blocks"), [(1, 1), (2, 1), (1, 3), (5, 2)])
@pytest.mark.parametrize("at_once", [1, 2, 9])
def test_results_do_not_depend_on_how_the_work_is_divided(
    by_pixels: int, by_blocks: int, at_once: int
) -> None:
    rows, filters, channels, pixels, images = ROWS, 36, 33, 7, 2 * LANES
    rng = np.random.default_rng(0)
    matrix, values = (
        rng.integers(-3, 4, size) for size in [(2 * filters, 2 * channels), (pixels, 2 * channels)]
    )
    weights = matrix.astype(np.float32).reshape(-1)
    inputs = aligned_zeros((pixels, 2 * channels, images))
    inputs[...] = values[:, :, None] + np.arange(images)
    threads = by_pixels * by_blocks
    size = max(at_once * 4 * channels * images + 3 * rows * images, 4 * LANES * LANES)
    scratch = np.full((threads, size), np.nan, np.float32)
    packed = np.empty(PARTS * weights_step(-(-filters // rows), rows, channels), np.float32)
    pack_parts(weights, packed, rows, filters, channels, False, scratch)
    out = np.full((pixels, 2 * filters, images), np.nan, np.float32)
    bias, none = np.arange(2 * filters, dtype=np.float32), np.zeros((threads, 0), np.float32)
    strassen_kernel(rows)(
        out.reshape(-1), 2 * filters * images, images, filters, pixels, inputs.reshape(-1),
        2 * channels * images, channels, packed, bias, out.reshape(-1), 0, 0, scratch, at_once,
        by_pixels, by_blocks, False, none, none, np.zeros((threads, 0, 3)),
        np.zeros(0, np.int32), 0,
    )  # fmt: skip
    expected = np.einsum("kc,pcn->pkn", matrix, inputs) + bias[:, None]
    assert_array_equal(out, expected)
