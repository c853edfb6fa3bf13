from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.channels_last.panel_tiles import PANELS, ROWS
from vectorized_ops.numba.kernels.channels_last.winograd import (
    CHANNELS_AT_ONCE,
    GAP,
    SquareTiles,
    convolve,
    deliver_taps,
    sum_points,
    transform_both,
)
from vectorized_ops.numba.kernels.channels_last.winograd_tiles import (
    CHANNEL_GRADIENT,
    CHANNEL_OUTPUT,
)
from vectorized_ops.numba.kernels.convolution.direct import block_size, weights_step
from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import (
    LOW,
    NARROW,
    Ends,
    tiles_of_kinds,
    used_points,
)
from vectorized_ops.numba.kernels.convolution.winograd_transforms import SQUARE_INPUT, SQUARE_TAPS
from vectorized_ops.winograd import winograd_transform

OUTPUTS, TAPS = 2, 3
POINTS = (OUTPUTS + TAPS - 1) ** 2
ENDS = Ends(1, 2)
"""Of maps of an odd height and an even width."""

SIZE, OUT_SIZE, PADDING = (5, 6), (5, 6), (1, 1)
CHANNELS, FILTERS, AT_ONCE = 2 * LANES, 3 * LANES, ROWS + 2
ITEMS = np.array([(0, 0, 2), (1, 2, 4), (0, 2, 0), (1, 0, 0), (0, 4, 0), (1, 4, 2)])
"""Four whole tiles (image, y, x), and two of the last line."""

CHUNKS = np.array([(0, 3, 0), (3, 1, 0), (4, 2, LOW)])


def tiles(outputs: Any) -> SquareTiles:
    given = OUTPUTS, TAPS, ENDS
    inputs, results = (tiles_of_kinds(each, *given) for each in (SQUARE_INPUT, outputs))
    wide, narrow = PANELS.address(ROWS, 2), PANELS.address(ROWS, 1)
    return SquareTiles(POINTS, used_points(*given), inputs, results, wide, narrow)


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


def points_memory(count: int) -> np.ndarray:
    return np.full(POINTS * (AT_ONCE * (count + GAP) + GAP), np.nan, np.float32)


def of_points(memory: np.ndarray, count: int) -> np.ndarray:
    """View (points, AT_ONCE, count) of such memory."""
    rows = memory.reshape(POINTS, -1)[:, : AT_ONCE * (count + GAP)]
    return rows.reshape(POINTS, AT_ONCE, count + GAP)[..., :count]


def test_there_are_no_narrow_tiles_here() -> None:
    assert not tiles(CHANNEL_OUTPUT).inputs[NARROW]


@pytest.mark.parametrize("threads", [1, 3])
def test_points_of_both_are_at_the_place_of_their_item(threads: int) -> None:
    images = whole_numbers(2, *SIZE, CHANNELS)
    gradient = np.full((2, *OUT_SIZE, FILTERS + 5), np.nan, np.float32)
    gradient[..., :FILTERS] = whole_numbers(2, *OUT_SIZE, FILTERS)
    image_points, gradient_points = points_memory(CHANNELS), points_memory(FILTERS)
    transform_both(
        tiles(CHANNEL_GRADIENT), images.reshape(-1), CHANNELS, SIZE, CHANNELS,
        gradient.reshape(-1), FILTERS + 5, OUT_SIZE, FILTERS, PADDING, image_points,
        gradient_points, np.zeros(FILTERS, np.float32), AT_ONCE, ITEMS, 1, 3, 0, threads,
    )  # fmt: skip
    made = winograd_transform(OUTPUTS, TAPS)
    into, back = (np.array(each, np.float64) for each in (made.input_map, made.output_map))
    border = np.pad(images, ((0, 0), (1, 9), (1, 9), (0, 0)))
    for place, (image, y, x) in enumerate(ITEMS[1:4]):
        pixels = border[image, y : y + 4, x : x + 4]
        wanted = np.einsum("ai,ijl,bj->abl", into, pixels, into).reshape(POINTS, -1)
        assert_array_equal(of_points(image_points, CHANNELS)[:, place], wanted)
        pixels = gradient[image, y : y + 2, x : x + 2, :FILTERS]
        wanted = np.einsum("ia,ijl,jb->abl", back, pixels, back).reshape(POINTS, -1)
        assert_array_equal(of_points(gradient_points, FILTERS)[:, place], wanted)


@pytest.mark.parametrize("threads", [1, 3, 40])
@pytest.mark.parametrize(("channels", "filters"), [(2 * LANES, 3 * LANES), (ROWS * LANES, LANES)])
def test_products_are_summed_up_at_the_points_that_a_kind_has(
    channels: int, filters: int, threads: int
) -> None:
    memory, sums = {}, np.full((POINTS, channels, filters), np.nan, np.float32)
    for count in (channels, filters):
        memory[count] = points_memory(count)
        of_points(memory[count], count)[...] = whole_numbers(POINTS, AT_ONCE, count)
    rest = channels % ROWS
    lasts = [PANELS.address(rest, columns) if rest else 0 for columns in (2, 1)]
    used, total = used_points(OUTPUTS, TAPS, ENDS), np.zeros(sums.shape, np.float64)
    for is_first, number, kind in ((True, 3, LOW), (False, AT_ONCE, 0)):
        sum_points(
            tiles(CHANNEL_GRADIENT), channels, filters, memory[channels], memory[filters],
            AT_ONCE, number, kind, *lasts, is_first, sums.reshape(-1),
            np.zeros(2 * LANES, np.float32), threads,
        )  # fmt: skip
        left, right = (of_points(memory[count], count)[:, :number] for count in (channels, filters))
        total += np.einsum("ptc,ptk->pck", left, right) * used[kind][:, None, None]
        assert_array_equal(sums, total)
    assert not used[LOW].all()


@pytest.mark.parametrize("taps", [3, 5])
def test_sums_become_gradients_of_weights(taps: int) -> None:
    channels, filters = 2 * LANES, 3 * LANES
    side = OUTPUTS + taps - 1
    sums = whole_numbers(side * side, channels, filters)
    out = np.full((filters, channels, taps, taps), np.nan, np.float32)
    deliver_taps(
        SQUARE_TAPS.address(OUTPUTS, taps), sums.reshape(-1), channels, filters, taps * taps,
        out.reshape(-1), aligned_zeros((filters // LANES, CHANNELS_AT_ONCE * taps * taps * LANES)),
    )  # fmt: skip
    matrix = np.array(winograd_transform(OUTPUTS, taps).weights_map, np.float64)
    square = sums.reshape(side, side, channels, filters)
    expected = np.einsum("ia,ijck,jb->kcab", matrix, square, matrix)
    assert_allclose(out, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("parts", [[0, 3], [0, 1, 1, 3]])
def test_items_of_each_thread_are_convolved_and_no_others(parts: list[int]) -> None:
    images, bias = whole_numbers(2, *SIZE, CHANNELS), whole_numbers(FILTERS)
    weights = whole_numbers(POINTS, FILTERS // LANES, CHANNELS, LANES)
    step, block = weights_step(FILTERS // LANES, LANES, CHANNELS), block_size(LANES, CHANNELS)
    packed = np.full((POINTS, step), np.nan, np.float32)
    for vector in range(FILTERS // LANES):
        panel = weights[:, vector].reshape(POINTS, -1)
        packed[:, vector * block : vector * block + CHANNELS * LANES] = panel
    out = aligned_zeros((2, *OUT_SIZE, FILTERS))
    out[...] = np.nan
    threads, lasts = len(parts) - 1, np.zeros((ROWS, 2), np.int64)
    scratch = np.tile(points_memory(FILTERS), (threads, 1))
    for rows in (1, 2, 3):
        lasts[rows] = PANELS.address(rows, 2), PANELS.address(rows, 1)
    convolve(
        tiles(CHANNEL_OUTPUT), images.reshape(-1), CHANNELS, SIZE, CHANNELS, packed.reshape(-1),
        bias, out.reshape(-1), FILTERS, OUT_SIZE, FILTERS, PADDING, out.reshape(-1), 0, 0,
        np.tile(points_memory(CHANNELS), (threads, 1)),
        scratch, np.zeros(FILTERS, np.float32), AT_ONCE, ITEMS, CHUNKS, np.array(parts), lasts,
    )  # fmt: skip
    border = np.pad(images, ((0, 0), (1, 9), (1, 9), (0, 0)))
    expected = np.full_like(out, np.nan)
    square = weights.transpose(0, 2, 1, 3).reshape(4, 4, CHANNELS, FILTERS).astype(np.float64)
    for first, number, kind in CHUNKS:
        lines = 1 if kind else OUTPUTS
        down, across = (winograd_transform(OUTPUTS, TAPS, it) for it in (lines, OUTPUTS))
        for image, y, x in ITEMS[first : first + number]:
            pixels = border[image, y : y + down.points, x : x + 4]
            left, right = (np.array(each.input_map, np.float64) for each in (down, across))
            points = np.einsum("ai,ijc,bj->abc", left, pixels, right)
            taken = square[np.ix_(down.numbers, across.numbers)]
            products = np.einsum("abc,abck->abk", points, taken)
            left, right = (np.array(each.output_map, np.float64) for each in (down, across))
            values = np.einsum("ia,abk,jb->ijk", left, products, right) + bias
            expected[image, y : y + lines, x : x + 2] = values
    assert_array_equal(out, expected)
    for own in scratch:
        of_points(own, FILTERS)[...] = np.nan
    assert np.isnan(scratch).all()  # also what lies behind the rows
