from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.arithmetic.batch_normalisation import TABLE_ROWS
from vectorized_ops.numba.kernels.normalisation import batch_tiles as tiles

CHANNELS, ALL_CHANNELS, FIRST = 3, 7, 2
UNTOUCHED = 77


@kernel
def moments(
    sums: Any, values: Any, distance: int, near: int, pivots: Any, bits: Any, vectors: int
) -> None:
    tiles.moments_tile(
        sums, tiles.SUMS, values, 3, distance, near, pivots, FIRST, bits, CHANNELS, vectors
    )


@kernel
def gradient_sums(
    sums: Any,
    values: Any,
    gradient: Any,
    distance: int,
    near: int,
    constants: Any,
    floor: Any,
    bits: Any,
    vectors: int,
) -> None:
    tiles.gradient_sums_tile(
        0, sums, tiles.SUMS, values, 3, distance, gradient, 5, distance, near, constants, FIRST,
        ALL_CHANNELS, floor, floor, bits, CHANNELS, vectors,
    )  # fmt: skip


@kernel
def flushed(sums: Any, totals: Any) -> None:
    tiles.flush_tile(sums, totals, CHANNELS)


@kernel
def normalised(
    out: Any, values: Any, addend: Any, constants: Any, floor: Any, vectors: int, joined: bool
) -> None:
    tiles.normalise_tile(
        0, out, LANES, values, 3, addend, 5, constants, FIRST, ALL_CHANNELS, floor, floor, CHANNELS,
        vectors, joined, False,
    )  # fmt: skip


@kernel
def values_gradient(
    out: Any,
    values: Any,
    gradient: Any,
    constants: Any,
    floor: Any,
    bits: Any,
    vectors: int,
    add: bool,
) -> None:
    tiles.values_gradient_tile(
        0, out, LANES, values, 3, gradient, 5, constants, FIRST, ALL_CHANNELS, floor, floor, bits,
        CHANNELS, vectors, add, False,
    )  # fmt: skip


def whole_numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def seen(flat: np.ndarray, index: int, near: int, distance: int, vectors: int) -> np.ndarray:
    """Rows (near, CHANNELS, images) that begin at an index."""
    size = CHANNELS * vectors * LANES
    pixels = [flat[index + p * distance :][:size] for p in range(near)]
    return np.stack(pixels).reshape(near, CHANNELS, -1)


def real_images(images: int, row: int) -> np.ndarray:
    return np.where(np.arange(row) < images, np.int32(-1), np.int32(0))


def totals_of(sums: np.ndarray) -> np.ndarray:
    """Both sums of each channel, which stand behind those of one that is untouched."""
    assert (sums[0] == UNTOUCHED).all()
    totals = np.full((CHANNELS, 2), 1000.0)
    flushed(sums[1:].reshape(-1), totals)
    assert not sums[1:].any()
    return totals - 1000


def constants_of(seed: int) -> np.ndarray:
    return whole_numbers(seed, TABLE_ROWS, ALL_CHANNELS)


def of_channels(constants: np.ndarray) -> np.ndarray:
    """Constants (TABLE_ROWS, CHANNELS, 1) of the channels that a tile works on."""
    return constants[:, FIRST : FIRST + CHANNELS, None]


@pytest.mark.parametrize("near", [1, tiles.NEAR_VALUES])
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
def test_moments_of_the_images_of_the_batch_are_added_up(vectors: int, near: int) -> None:
    row = vectors * LANES
    distance, images = CHANNELS * row + 1, row - 3
    flat, pivots = whole_numbers(1, near * distance + 9), whole_numbers(2, ALL_CHANNELS)
    rows = seen(flat, 3, near, distance, vectors)
    rows = rows - pivots[None, FIRST : FIRST + CHANNELS, None]
    flat.reshape(-1)[3 + images : 3 + row] = np.nan  # the padding of the first channel
    sums = np.full((1 + CHANNELS, tiles.SUMS), UNTOUCHED, np.float32)
    sums[1:] = 0
    moments(sums.reshape(-1), flat, distance, near, pivots, real_images(images, row), vectors)
    rows = rows[..., :images]
    expected = np.stack([rows.sum(axis=(0, 2)), (rows**2).sum(axis=(0, 2))], axis=1)
    assert_array_equal(totals_of(sums), expected)


@pytest.mark.parametrize("floor", [0.0, np.nan])
@pytest.mark.parametrize("near", [1, tiles.NEAR_GRADIENTS])
@pytest.mark.parametrize("vectors", [1, 2, 3])
def test_gradients_of_what_the_floor_let_through_are_added_up(
    vectors: int, near: int, floor: float
) -> None:
    row = vectors * LANES
    distance, images = CHANNELS * row + 1, row - 3
    flat, above = (whole_numbers(seed, near * distance + 9) for seed in (1, 2))
    constants, sums = constants_of(3), np.zeros((1 + CHANNELS, tiles.SUMS), np.float32)
    sums[0] = UNTOUCHED
    gradient_sums(
        sums.reshape(-1), flat, above, distance, near, constants, np.float32(floor),
        real_images(images, row), vectors,
    )  # fmt: skip
    mean, factor, shift, *_ = of_channels(constants)
    centred = (seen(flat, 3, near, distance, vectors) - mean)[..., :images]
    slopes = seen(above, 5, near, distance, vectors)[..., :images]
    slopes = np.where(centred * factor + shift <= floor, 0, slopes)
    expected = np.stack([slopes.sum(axis=(0, 2)), (slopes * centred).sum(axis=(0, 2))], axis=1)
    assert_array_equal(totals_of(sums), expected)


def surrounded(row: int) -> np.ndarray:
    out = aligned_zeros((CHANNELS * row + 2 * LANES,))
    out[:] = UNTOUCHED
    return out


def inside(out: np.ndarray) -> np.ndarray:
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
    return out[LANES:-LANES].reshape(CHANNELS, -1)


@pytest.mark.parametrize("floor", [0.0, -np.inf])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("vectors", [1, 2, 3])
def test_values_are_normalised_and_joined(vectors: int, joined: bool, floor: float) -> None:
    row = vectors * LANES
    flat, other = (whole_numbers(seed, CHANNELS * row + 9) for seed in (1, 2))
    constants, out = constants_of(3), surrounded(row)
    normalised(out, flat, other, constants, np.float32(floor), vectors, joined)
    mean, factor, shift, *_ = of_channels(constants)
    expected = (seen(flat, 3, 1, 0, vectors)[0] - mean) * factor + shift
    if joined:
        expected = expected + seen(other, 5, 1, 0, vectors)[0]
    assert_array_equal(inside(out), np.maximum(expected, floor))


@pytest.mark.parametrize("floor", [0.0, np.nan])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("vectors", [1, 2, 3])
def test_gradients_of_values_are_zero_in_images_that_fill_up(
    vectors: int, add: bool, floor: float
) -> None:
    row = vectors * LANES
    images = row - 3
    flat, above = (whole_numbers(seed, CHANNELS * row + 9) for seed in (1, 2))
    constants, out = constants_of(3), surrounded(row)
    bits = real_images(images, row)
    values_gradient(out, flat, above, constants, np.float32(floor), bits, vectors, add)
    mean, factor, shift, _, slope, level = of_channels(constants)
    centred, slopes = seen(flat, 3, 1, 0, vectors)[0] - mean, seen(above, 5, 1, 0, vectors)[0]
    slopes = np.where(centred * factor + shift <= floor, 0, slopes)
    expected = (slopes - level + centred * slope) * factor + UNTOUCHED * add
    assert_allclose(inside(out)[:, :images], expected[:, :images])
    assert not inside(out)[:, images:].any()
