from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.pooled_convolution.direct_tiles import (
    AHEAD,
    pooled_tile,
    pooled_weights_tile,
)

LINES, PIXELS, TAPS, ROWS = 6, 5, 3, 2
UNTOUCHED = 77


@kernel
def pooled_2(out: Any, which: Any, weights: Any, bias: Any, images: Any, offsets: Any) -> None:
    pooled_tile(
        2, out, 3, which, 5, LANES + 1, weights, 4, TAPS, bias, 1, images, 2 * LANES,
        LANES, PIXELS * LANES, offsets, TAPS,
    )  # fmt: skip


@kernel
def weights_3(
    out: Any, gradient: Any, cells: Any, which: Any, which_cells: Any, images: Any, windows: Any
) -> None:
    pooled_weights_tile(
        3, out, LANES, gradient, LANES, cells, which, 2 * LANES, which_cells,
        images, 2 * LANES, windows, PIXELS * LANES, LANES, len(windows),
    )  # fmt: skip


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-2, 3, shape).astype(np.float32)


def test_pooled_tile_keeps_the_largest_of_four_sums_and_its_place() -> None:
    images = whole_numbers(LINES, PIXELS, LANES)
    weights, bias = whole_numbers(4 + ROWS * TAPS), np.array([99, 10, 20], np.float32)
    taps = [(0, 0), (2, 1), (3, 0)]
    offsets = np.array([(r * PIXELS + s) * LANES for r, s in taps])
    out = np.full(3 + ROWS * (LANES + 1), UNTOUCHED, np.float32)
    which = np.full(len(out) + 2, UNTOUCHED, np.uint8)
    pooled_2(out, which, weights, bias, images, offsets)

    expected, places = np.full_like(out, UNTOUCHED), np.full_like(which, UNTOUCHED)
    for row in range(ROWS):
        sums = [
            sum(
                weights[4 + row * TAPS + t] * images[y + r, 2 + x + s]  # the window begins at 2
                for t, (r, s) in enumerate(taps)
            )
            for y, x in [(0, 0), (0, 1), (1, 0), (1, 1)]
        ]
        begin = 3 + row * (LANES + 1)
        expected[begin : begin + LANES] = np.max(sums, axis=0) + bias[1 + row]
        places[begin + 2 : begin + 2 + LANES] = np.argmax(sums, axis=0)
    assert_array_equal(out, expected)
    assert_array_equal(which, places)


def test_weights_tile_multiplies_each_gradient_by_what_its_winner_saw_and_sums_it() -> None:
    images = whole_numbers(LINES, PIXELS + 2, LANES)
    gradient = whole_numbers(4, LANES)
    which = np.random.default_rng(0).integers(0, 4, (7, LANES)).astype(np.uint8)
    coming = np.full(AHEAD, 2**40)  # what is fetched need not exist
    cells = np.append(np.array([0, 2]) * LANES, coming)
    corners = [0, PIXELS]  # pixels of a plane that is PIXELS wide
    out = np.full((12, LANES), UNTOUCHED, np.float32)
    places = np.append(np.array([1, 4]) * LANES, coming)
    weights_3(out, gradient, cells, which, places, images, np.array(corners) * LANES)

    seen = images.reshape(-1, LANES)[2:]
    expected = np.full_like(out, UNTOUCHED)
    expected[1:10] = 0
    expected[10] = gradient[1] + gradient[3]
    # Cells are counted from row 1 of the gradient and from row 2 of the places.
    for cell, place, corner in zip([1, 3], [3, 6], corners, strict=True):
        for lane in range(LANES):
            y, x = divmod(int(which[place, lane]), 2)
            for tap in range(9):
                pixel = corner + (y + tap // 3) * PIXELS + x + tap % 3
                expected[1 + tap, lane] += gradient[cell, lane] * seen[pixel, lane]
    assert_array_equal(out, expected)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86 instructions")
def test_cells_that_come_are_fetched(assemblies: Callable[[Any], list[str]]) -> None:
    places = np.zeros(1 + AHEAD, np.int64)
    out, floats = np.zeros((12, LANES), np.float32), np.zeros(LINES * PIXELS * LANES, np.float32)
    weights_3(out, floats, places, floats.astype(np.uint8), places, floats, places[:1])
    for assembly in assemblies(weights_3):
        assert assembly.count("prefetcht0") >= 2
