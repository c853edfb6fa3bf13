from __future__ import annotations

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numpy.testing import assert_array_equal

from vectorized_ops.numba.emit.lanes import AVX512
from vectorized_ops.numba.kernels.convolution import direct as correlation
from vectorized_ops.numba.kernels.convolution.direct import (
    PANEL_BYTES,
    TALLEST_TILE,
    pack_weights,
    pixel_block,
    split_threads,
    tile_rows,
)


def test_height_of_tiles_covers_the_filters_with_the_least_work() -> None:
    for filters in range(1, 300):
        chosen = tile_rows(filters)
        assert 1 <= chosen <= min(filters, TALLEST_TILE)
        work = [
            -(-filters // rows) * (rows + 1) for rows in range(1, min(filters, TALLEST_TILE) + 1)
        ]
        assert work[chosen - 1] == min(work)
    heights = (14, 8, 8, 11) if AVX512 else (5, 5, 4, 6)
    assert tuple(map(tile_rows, (14, 15, 16, 33))) == heights


def test_results_and_operands_of_a_tile_fit_the_registers() -> None:
    registers, columns = 32 if AVX512 else 16, correlation.TILE_COLUMNS
    assert registers - 2 <= TALLEST_TILE * columns + columns + 1 <= registers


def test_inputs_of_a_block_of_pixels_stay_in_cache() -> None:
    assert pixel_block(3, 4096, 256) == 1
    assert pixel_block(1, 1, 16) == 16
    assert pixel_block(3, 64, 64) == 5
    assert 5 * 4 * 3 * 64 * 64 <= PANEL_BYTES < 6 * 4 * 3 * 64 * 64


@pytest.mark.parametrize(
    ("threads", "pixels", "blocks", "expected"),
    [
        (1, 100, 7, (1, 1)),
        (8, 3136, 5, (8, 1)),
        (8, 1, 64, (1, 8)),
        (64, 49, 37, (8, 8)),
        (6, 4, 9, (2, 3)),
        (5, 1, 1, (5, 1)),
    ],
)
def test_threads_share_pixels_first_and_filters_where_pixels_are_few(
    threads: int, pixels: int, blocks: int, expected: tuple[int, int]
) -> None:
    assert split_threads(threads, pixels, blocks) == expected


def blocks_of(count: int, rows: int) -> list[slice]:
    begins = [min(begin, count - rows) for begin in range(0, count, rows)]
    return [slice(begin, begin + rows) for begin in begins]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kernel", [(2, 3), (1, 1)])
@pytest.mark.parametrize(
    ("groups", "filters", "channels"), [(1, 7, 5), (3, 4, 2), (2, 1, 1), (2, 33, 40), (1, 16, 64)]
)
def test_weights_are_packed_tap_by_tap_in_blocks_of_which_the_last_overlaps(
    groups: int, filters: int, channels: int, kernel: tuple[int, int], backward: bool, pairs: bool
) -> None:
    filters, channels = filters << pairs, channels << pairs
    shape = groups, filters, channels, *kernel
    weights = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    weights = weights % 251 if pairs else weights  # bfloat16 knows all whole numbers to 256
    turned = weights.transpose(0, 2, 1, 3, 4)[..., ::-1] if backward else weights
    written, read = turned.shape[1:3]
    rows = min(3, written) if written < 16 else TALLEST_TILE - 1
    blocks = blocks_of(written, rows)
    out = np.full(groups * len(blocks) * np.prod(kernel) * read * rows + 1, np.nan, np.float32)
    pack_weights(weights.reshape(-1), out, rows, groups, written, read, *kernel, backward, pairs)
    packed = out[:-1].reshape(groups, len(blocks), -1)
    for number, block in enumerate(blocks):
        expected = turned[:, block].transpose(0, 3, 4, 2, 1)
        if pairs:
            expected = paired(expected[..., ::2, :], expected[..., 1::2, :])
        expected = expected.reshape(groups, -1)
        assert_array_equal(packed[:, number, : expected.shape[1]], expected)
    assert np.isnan(out[-1])
