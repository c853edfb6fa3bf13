from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.channels_last import correlation
from vectorized_ops.numba.kernels.channels_last.correlation import (
    BLOCK_STEPS,
    GATHERED_ROW,
    LOT_ROWS,
    SUMMED_STEPS,
    Grid,
    add_lots,
    bias_of,
    deliver_weights,
    pack_panels,
    scatter,
    sum_rows,
)
from vectorized_ops.numba.kernels.channels_last.panel_tiles import PANELS, ROWS
from vectorized_ops.numba.kernels.convolution.destination import MASK
from vectorized_ops.numba.kernels.convolution.row_tiles import TRANSPOSE_ROWS
from vectorized_ops.numba.kernels.convolution.winograd import CHANNELS_AT_ONCE

UNTOUCHED = 77


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


def test_steps_of_a_block_fit_a_gathered_row() -> None:
    assert max(BLOCK_STEPS, SUMMED_STEPS) <= GATHERED_ROW
    assert SUMMED_STEPS % ROWS == 0


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("area", [1, 3, 25])
@pytest.mark.parametrize("counts", [(5, 1), (17, 20), (32, 16), (3, 40)])
def test_weights_are_packed_in_panels_of_the_taps_that_have_a_slot(
    counts: tuple[int, int], area: int, backward: bool
) -> None:
    filters, channels = counts
    weights = whole_numbers(3, filters, channels, area)
    slots = np.full(area, -1)
    used = np.arange(area)[area > 1 :]  # all but the first, in another order
    slots[used] = np.roll(np.arange(len(used)), 1)
    columns, rows = (channels, filters) if backward else (filters, channels)
    vectors = -(-columns // LANES)
    out = np.full((vectors + 1, len(used), rows, LANES), UNTOUCHED, np.float32)
    scratch = np.full((vectors, CHANNELS_AT_ONCE * area, LANES), np.nan, np.float32)
    transpose = TRANSPOSE_ROWS.address(min(area, LANES))
    pack_panels(
        weights.reshape(-1), out.reshape(-1), weights[0].size, columns, rows, area, slots,
        len(used), backward, transpose, scratch,
    )  # fmt: skip
    taken = weights[1].transpose(2, 0, 1) if backward else weights[1].transpose(2, 1, 0)
    found = out[:-1].transpose(1, 2, 0, 3).reshape(len(used), rows, -1)[..., :columns]
    for tap in used:
        assert_array_equal(found[slots[tap]], taken[tap])
    assert (out[-1] == UNTOUCHED).all()


@kernel
def gather(
    images: Any,
    distance: int,
    grid: Any,
    runs: Any,
    first: int,
    length: int,
    steps: int,
    ones: bool,
    top: int,
    rows: int,
    zeros: Any,
    out: Any,
) -> None:
    correlation._gather(
        images, distance, grid, runs, first, length, steps, ones, top, rows, zeros, out
    )


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize(("channels", "distance"), [(1, 1), (5, 5), (5, 9), (40, 43), (16, 16)])
@pytest.mark.parametrize("ones", [False, True])
def test_rows_are_gathered_from_any_step_to_any_other(
    ones: bool, channels: int, distance: int, taps: int
) -> None:
    number, height, width, lines, pixels = 2, 4, 5, 3, 4
    grid = Grid(number, lines, pixels, height, width, 1, 2, 0, 0, 1, 1, lines, pixels)
    images = np.full((number, height, width, distance), np.nan, np.float32)
    images[..., :channels] = whole_numbers(number, height, width, channels)
    runs = np.array([(dy, dx, taps) for dy in (-1, 0, 1) for dx in (-2, 1)], np.int64)
    border = np.pad(images[..., :channels], ((0, 0), (9, 9), (9, 9), (0, 0)))
    steps = 6 * taps * channels
    whole = np.zeros((number * lines * pixels, steps + 8), np.float32)
    for row, (image, a, b) in enumerate(np.ndindex(number, lines, pixels)):
        seen = [border[image, a + dy + 9, 2 * b + dx + 9 :][:taps] for dy, dx, _ in runs]
        whole[row, :steps] = np.reshape(seen, -1)
    whole[:, steps] = ones
    flat = images.reshape(-1)[: images.size - distance + channels].copy()
    zeros = np.zeros(LANES, np.float32)
    for first, length in ((0, steps), (channels + 1, min(GATHERED_ROW, steps - channels + 3))):
        length = min(length, GATHERED_ROW)
        for top, rows in ((0, len(whole)), (7, 9)):
            out = np.full((len(whole) + 1, GATHERED_ROW), UNTOUCHED, np.float32)
            gather(
                flat, distance, grid, runs, first, length, steps, ones, top, rows, zeros,
                out.reshape(-1),
            )  # fmt: skip
            assert_array_equal(out[:rows, :length], whole[top : top + rows, first : first + length])
            assert (out[rows:] == UNTOUCHED).all()
            assert (out[:, length:] == UNTOUCHED).all()


@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_rows_are_scattered_to_pixels_between_others(
    some: bool, add: bool, masked: bool, threads: int
) -> None:
    grid = Grid(2, 2, 3, 0, 0, 1, 1, 1, 2, 2, 3, 5, 9)
    results, out, mask = (whole_numbers(*size) for size in ((12, 3), (2, 5, 9, 4), (2, 5, 9, 3)))
    mask[0, 1, 2] = np.nan, 0, -0.0
    expected = out.copy()
    target = expected[:, 1::2, 2::3, :3]
    value = (results.reshape(2, 2, 3, 3) if some else 0) + add * target
    target[...] = np.where(mask[:, 1::2, 2::3] <= 0, 0, value) if masked else value
    scatter(
        results.reshape(-1)[: 36 * some], grid, 3, out.reshape(-1), 4, mask.reshape(-1), 3, add,
        MASK * masked, threads,
    )  # fmt: skip
    assert_array_equal(out, expected)


@pytest.mark.parametrize("area", [1, 4, 9])
@pytest.mark.parametrize(("filters", "channels"), [(3, 2), (LANES, 2 * LANES), (LANES + 1, 5)])
def test_sums_are_delivered_as_weights_of_a_group(filters: int, channels: int, area: int) -> None:
    vectors = -(-filters // LANES)
    sums = whole_numbers(area * channels + 1, vectors * LANES)
    out = np.full((3, filters, channels, area), UNTOUCHED, np.float32)
    deliver_weights(
        sums.reshape(-1), filters, channels, area, out.reshape(-1), out[0].size,
        np.full((vectors, LANES * LANES), np.nan, np.float32),
    )  # fmt: skip
    expected = np.full_like(out, UNTOUCHED)
    expected[1] = sums[:-1].reshape(area, channels, -1)[..., :filters].transpose(2, 1, 0)
    assert_array_equal(out, expected)
    bias = np.zeros(filters, np.float32)
    bias_of(sums.reshape(-1), area * channels, vectors * LANES, bias)
    assert_array_equal(bias, sums[-1, :filters])


@pytest.mark.parametrize("threads", [1, 4])
def test_lots_are_added_up(threads: int) -> None:
    sums = whole_numbers(3, 37)
    total = sums.sum(axis=0)
    rest = sums[1:].copy()
    add_lots(sums.reshape(-1), 3, 37, threads)
    assert_array_equal(sums[0], total)
    assert_array_equal(sums[1:], rest)


@pytest.mark.parametrize("rows", [1, LOT_ROWS, 2 * LOT_ROWS + 5])
@pytest.mark.parametrize("vectors", [1, 3, 4])
def test_rows_are_summed_up(vectors: int, rows: int) -> None:
    values = np.full((rows, vectors * LANES + 3), np.nan, np.float32)
    values[:, : vectors * LANES] = whole_numbers(rows, vectors * LANES)
    lots, out = -(-rows // LOT_ROWS), np.full(vectors * LANES, np.nan, np.float32)
    sum_rows(
        PANELS.address(1, 2), PANELS.address(1, 1), np.ones(1, np.float32), values.reshape(-1),
        values.shape[1], rows, np.zeros(2 * LANES, np.float32),
        np.full((lots, len(out)), np.nan, np.float32), out,
    )  # fmt: skip
    assert_array_equal(out, values[:, : vectors * LANES].sum(axis=0))
