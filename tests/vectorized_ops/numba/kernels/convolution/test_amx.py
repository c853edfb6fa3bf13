"""Weights as tiles, panels of pixels, and the division of sums into tiles."""

from __future__ import annotations

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded
from vectorized_ops.numba.emit.amx import TILE
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.amx import (
    BLOCK,
    AmxOuterProducts,
    depth_of,
    fill_panel,
    pack_blocks,
    runs_of,
)
from vectorized_ops.numba.kernels.convolution.amx_packing_tiles import PACKING
from vectorized_ops.numba.kernels.convolution.amx_tiles import PAIRS
from vectorized_ops.numba.kernels.convolution.taps import forward_tables
from vectorized_ops.shapes import ConvolutionShape


def test_depth_is_that_of_whole_tiles() -> None:
    assert [depth_of(*each) for each in ((1, 1), (32, 1), (33, 1), (3, 9), (64, 9))] == [
        16, 16, 32, 32, 288,
    ]  # fmt: skip


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("channels", "kernel"),
    [
        (6, (3, 2)),
        (7, (3, 2)),
        (64, (1, 1)),
        (71, (1, 1)),
        (32, (1, 2)),
        (63, (2, 1)),
        (33, (2, 1)),
    ],
)
def test_weights_become_tiles_of_pairs_with_zeros_behind(
    channels: int, kernel: tuple[int, int], backward: bool
) -> None:
    groups, filters, (lines, columns) = 2, BLOCK + 3, kernel
    depth, half = depth_of(channels, lines * columns), (channels + 1) // 2
    shape = (groups, filters, channels, lines, columns)
    weights = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    given = weights
    if backward:  # channels and filters change places, and columns run backwards
        given = np.ascontiguousarray(weights.swapaxes(1, 2)[..., ::-1])
    out = np.full(groups * 2 * BLOCK * depth, 77, np.float32)
    packing = PACKING.address(int(backward), int(lines * columns > 1))
    pack_blocks(
        packing, given.reshape(-1), groups, filters, channels, lines, columns, backward, depth, out
    )
    even = np.zeros((groups, filters, lines * columns, 2 * half), np.float32)
    even[..., :channels] = weights.reshape(*shape[:3], -1).swapaxes(2, 3)
    pairs = np.zeros((groups, 2 * BLOCK, depth), np.float32)
    pairs[:, :filters, : lines * columns * half] = paired(even[..., ::2], even[..., 1::2]).reshape(
        groups, filters, -1
    )
    tiles = pairs.reshape(groups, -1, TILE, depth // TILE, TILE).swapaxes(2, 3)
    found = out.reshape(groups, -1, TILE * depth)
    expected = np.ascontiguousarray(tiles).reshape(found.shape)
    assert found[:, :3].tobytes() == expected[:, :3].tobytes()
    assert (found[:, 3] == 77).all()  # of a block of few filters one tile alone


@pytest.mark.parametrize("channels", [4, 5])
@pytest.mark.parametrize("apart", [0, 3], ids=["dense", "a slice"])
def test_panels_have_the_pairs_of_all_taps_and_zeros_outside(channels: int, apart: int) -> None:
    images = 2 * LANES
    shape = ConvolutionShape(images, 3, 4, channels, 1, (3, 2), padding=(1, 1))
    distance, half = (channels + apart) * images, (channels + 1) // 2
    tables, depth = forward_tables(shape, distance, images), depth_of(channels, 6)
    values = np.random.default_rng(0).integers(1, 9, (3, 4, channels + apart, images))
    source = rounded(values.astype(np.float32)).reshape(-1)
    bordered = np.zeros((5, 6, 2 * half, images), np.float32)
    bordered[1:4, 1:5, :channels] = values[:, :, :channels]
    address = PAIRS.address(bfloat16=("inputs",))
    for pixel, kind in enumerate(tables.classes):
        panel = np.full(5 + depth * images + 1, np.nan, np.float32)
        fill_panel(
            address, panel, 5, depth, source, tables.bases[pixel], images, channels, False,
            tables.segments, tables.first[kind], tables.count[kind],
        )  # fmt: skip
        y, x = divmod(pixel, shape.pixels)
        taps = bordered[y : y + 3, x : x + 2].reshape(6, half, 2, images)
        expected = np.zeros((depth, images), np.float32)
        expected[: 6 * half] = paired(taps[:, :, 0], taps[:, :, 1]).reshape(-1, images)
        by_vector = expected.reshape(depth, 2, LANES).swapaxes(0, 1)
        assert panel[5:-1].tobytes() == np.ascontiguousarray(by_vector).tobytes()
        assert_array_equal(np.isnan(panel[[*range(5), -1]]), True)


def test_panels_of_whole_tiles_have_the_taps_inside_the_image_alone() -> None:
    images, channels, half = LANES, 2 * TILE, TILE
    shape = ConvolutionShape(images, 3, 4, channels, 1, (3, 2), padding=(1, 1))
    distance, depth = channels * images, depth_of(channels, 6)
    tables = forward_tables(shape, distance, images)
    values = np.random.default_rng(0).integers(1, 9, (3, 4, channels, images)).astype(np.float32)
    pairs = paired(values[:, :, ::2], values[:, :, 1::2])
    runs = runs_of(tables, channels, depth)
    for pixel, kind in enumerate(tables.classes):
        panel = np.full(depth * images, np.nan, np.float32)
        fill_panel(
            PAIRS.address(bfloat16=("inputs",)), panel, 0, depth, rounded(values).reshape(-1),
            tables.bases[pixel], images, channels, True, tables.segments, tables.first[kind],
            tables.count[kind],
        )  # fmt: skip
        y, x = divmod(pixel, shape.pixels)
        taps = [
            (r, s) for r in range(3) for s in range(2) if 0 <= y + r - 1 < 3 and 0 <= x + s - 1 < 4
        ]
        expected = np.stack([pairs[y + r - 1, x + s - 1] for r, s in taps])
        assert panel[: expected.size].tobytes() == expected.tobytes()
        assert np.isnan(panel[expected.size :]).all()
        steps = runs.steps.reshape(-1, 2)[runs.first[kind] : runs.first[kind] + runs.number[kind]]
        found = [first + t for first, number in steps for t in range(number)]
        assert found == [(2 * r + s) * half // TILE for r, s in taps]


def test_panels_of_other_taps_are_one_run_of_all_steps() -> None:
    shape = ConvolutionShape(LANES, 3, 3, 20, 1, (3, 3), padding=(1, 1))
    runs = runs_of(forward_tables(shape, 20 * LANES, LANES), 20, depth_of(20, 9))
    assert runs.steps.tolist() == [0, 6]
    assert (runs.first.tolist(), runs.number.tolist()) == ([0] * 9, [1] * 9)


@pytest.mark.parametrize(
    ("channels", "rows"),
    [(1, 1), (16, 16), (17, 17), (31, 31), (32, 32), (33, 16), (48, 16), (64, 32), (80, 16)],
)
def test_sums_of_channels_take_the_fewest_tiles(channels: int, rows: int) -> None:
    assert AmxOuterProducts(native=False).rows(channels) == rows
