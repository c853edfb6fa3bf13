from __future__ import annotations

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution import weights_gradient as outer_product
from vectorized_ops.numba.kernels.convolution.amx_tiles import TURN_HALF
from vectorized_ops.numba.kernels.convolution.weights_gradient import (
    BLOCK_PIXELS,
    PANEL,
    PANEL_COLUMNS,
    Division,
    divide,
    gather_bias,
    gather_sums,
    panels_of,
    sums_size,
    turn_pixel,
)
from vectorized_ops.shapes import ConvolutionShape


@pytest.mark.parametrize(
    ("side", "panels", "threads", "expected"),
    [
        (7, 8, 4, Division(7, 7, 1, 4)),
        (8, 2, 1, Division(8, 8, 1, 1)),
        (8, 1, 4, Division(1, 8, 4, 1)),
        (8, 2, 16, Division(1, 8, 8, 2)),
        (1, 2, 4, Division(1, 1, 1, 4)),
        (14, 2, 1, Division(1, 14, 1, 1)),
        (14, 4, 4, Division(1, 14, 4, 1)),
        (56, 2, 8, Division(1, 14, 8, 1)),
        (112, 1, 1, Division(1, 16, 1, 1)),
    ],
)
def test_small_maps_are_one_block_unless_threads_would_have_nothing_to_do(
    side: int, panels: int, threads: int, expected: Division
) -> None:
    shape = ConvolutionShape(16, side, side, 3, panels * PANEL, (1, 1))
    assert divide(shape, panels, threads) == expected
    assert expected.by_pixels * expected.by_filters == threads


def test_blocks_of_narrow_maps_are_several_lines() -> None:
    division = divide(ConvolutionShape(16, 100, 3, 3, 5, (1, 1)), 1, 1)
    assert division.pixels == 3
    assert 1 < division.lines <= BLOCK_PIXELS // 3


@pytest.mark.parametrize(
    ("channels", "taps", "expected"),
    [
        (256, 1, Division(1, 14, 2, 1)),
        (2048, 1, Division(1, 14, 1, 2)),
        (128, 3, Division(1, 14, 1, 2)),
    ],
)
def test_threads_share_filters_where_sums_of_their_own_would_leave_the_cache(
    channels: int, taps: int, expected: Division
) -> None:
    padding = (taps // 2, taps // 2)
    shape = ConvolutionShape(32, 14, 14, channels, 8 * PANEL, (taps, taps), padding=padding)
    assert divide(shape, 8, 2) == expected


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("share", [1, 7, 8, 9, 16, 17, 31, 32, 33, 47, 48, 49, 64, 80])
def test_every_filter_is_taken_from_one_panel_that_lies_among_the_filters(
    share: int, groups: int
) -> None:
    filters = share * groups
    panels = panels_of(filters, groups)
    filter_numbers = np.arange(filters)
    begins, widths = panels.starts[panels.of_filter], panels.widths[panels.of_filter] * LANES
    assert (begins <= filter_numbers).all()
    assert (filter_numbers < begins + widths).all()
    assert (panels.starts >= 0).all()
    assert (panels.starts + panels.widths * LANES <= max(filters, LANES)).all()
    # What the kernel relies on: each group has the same number of panels.
    group_of_panel = np.arange(len(panels.starts)) * groups // len(panels.starts)
    assert_array_equal(group_of_panel[panels.of_filter], filter_numbers // share)
    assert set(panels.widths) <= {1, PANEL_COLUMNS}
    least = -(-share // PANEL) * groups
    assert least <= len(panels.starts) <= (least + groups if filters >= PANEL else 2 * least)


def test_range_inside_a_line_is_that_of_the_definition() -> None:
    for begin in range(-7, 8):
        for stride in (1, 2, 3):
            for size in (1, 2, 5):
                first, last = outer_product._inside(begin, stride, size, 4)
                places = [i for i in range(4) if 0 <= begin + i * stride < size]
                assert list(range(first, last)) == places, (begin, stride, size)


@pytest.mark.parametrize(("filters", "width"), [(1, 1), (LANES - 1, 1), (LANES, 1), (PANEL, 2)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "pairs"])
def test_pixel_is_turned_and_summed_with_zeros_beside_few_filters(
    kind: str, filters: int, width: int
) -> None:
    images, lanes = 16, width * LANES
    gradient = np.random.default_rng(0).integers(-3, 4, (filters, images)).astype(np.float32)
    panel = np.full(3 + images * lanes + 1, 77, np.float32)
    sums = np.full(2 + PANEL + 1, 5, np.float32)
    total, pairs = gradient.sum(axis=1), kind == "pairs"
    if pairs:
        total += (gradient + 1).sum(axis=1)
        gradient = paired(gradient, gradient + 1)
    source = np.concatenate([[99], gradient.reshape(-1)]).astype(np.float32)
    source = rounded(source) if kind == "bfloat16" else source
    turn_pixel(panel, 3, width, sums, 2, source, 1, filters, images, images, pairs)
    expected = np.zeros((images, lanes), np.float32)
    expected[:, :filters] = gradient.T
    assert_array_equal(panel, [77, 77, 77, *expected.reshape(-1), 77])
    assert_array_equal(sums[2 : 2 + lanes], 5 + np.pad(total, (0, lanes - filters)))
    assert (np.delete(sums, range(2, 2 + lanes)) == 5).all()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("channels", "rows", "neighbours", "taps", "turned"),
    [
        (5, 3, 1, 4, False),
        (6, 4, 3, 4, False),
        (5, 3, 1, 1, False),
        (5, 3, 1, 1, True),
        (35, 32, 1, 1, False),
        (35, 32, 1, 1, True),
        (20, 14, 1, 9, False),
    ],
)
def test_sums_of_all_threads_are_gathered_from_the_tile_that_owns_each_weight(
    channels: int, rows: int, neighbours: int, taps: int, turned: bool, groups: int
) -> None:
    filters = groups * (PANEL + 3)  # blocks and panels overlap
    panels = panels_of(filters, groups)
    rng = np.random.default_rng(0)
    tiles = rng.integers(-3, 4, (2, len(panels.starts), 2, taps, rows * PANEL))
    whole = np.full(filters * channels * taps + 1, np.nan, np.float32)
    gather_sums(
        tiles.reshape(2, -1).astype(np.float32), rows, channels, taps, neighbours,
        panels, turned, whole[:-1],
    )  # fmt: skip
    out = whole[:-1]
    assert np.isnan(whole[-1])
    expected = np.empty((filters, channels, taps))
    for k, c in np.ndindex(filters, channels):
        column, block = panels.of_filter[k], c // rows
        row = c - min(block * rows, channels - rows)
        place = row * panels.widths[column] * LANES + k - panels.starts[column]
        expected[k, c] = tiles[:, column, block, :, place].sum(axis=0)
    by_neighbour = expected.reshape(filters, neighbours, channels // neighbours, taps)
    order = (2, 0, 3, 1) if turned else (0, 2, 3, 1)
    assert_array_equal(out, by_neighbour.transpose(order).reshape(-1))


def test_the_last_half_of_a_vector_of_images_is_left_to_a_tile_of_its_own() -> None:
    images, lanes = LANES + LANES // 2, 2 * LANES
    elements = np.random.default_rng(0).integers(-3, 4, (2, lanes, images)).astype(np.float32)
    panel, sums = np.full(images * lanes + 1, 77, np.float32), np.zeros(lanes, np.float32)
    source = paired(*elements).reshape(-1)
    turn_pixel(panel, 0, 2, sums, 0, source, 0, lanes, images, images, True, TURN_HALF.address())
    expected = np.ascontiguousarray(source.reshape(lanes, images).T)
    assert panel[:-1].tobytes() == expected.tobytes()
    assert panel[-1] == 77
    assert_array_equal(sums, elements.sum(axis=(0, 2)))


def test_sums_are_tiles_of_all_panels_channels_and_taps() -> None:
    shape = ConvolutionShape(16, 9, 9, 5, PANEL + 3, (2, 2))
    panels = panels_of(shape.filters, 1)
    assert sums_size(shape, panels) == 2 * 5 * 4 * PANEL
    assert sums_size(shape, panels, 3) == 2 * 2 * 3 * 4 * PANEL


def test_bias_gets_the_sum_of_all_threads() -> None:
    panels = panels_of(PANEL + 3, 1)
    sums = np.random.default_rng(0).integers(-3, 4, (3, len(panels.starts) * PANEL))
    out = np.empty(PANEL + 3, np.float32)
    gather_bias(sums.astype(np.float32), panels.starts, panels.of_filter, out)
    first, second = sums.sum(axis=0).reshape(-1, PANEL)
    assert_array_equal(out, [*first, *second[LANES - 3 : LANES]])
