from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.kernels.pictures.tiles import COPIED, SHORT_STEP, STEP

LINES, APART = 2, 5
CONSTANTS = {
    "interleaved": (3, 0, 0, STEP),
    "planar": (3, 1, 0, STEP),
    "backwards": (3, 0, 1, STEP),
    "grey": (1, 0, 0, STEP),
    "short": (1, 0, 0, SHORT_STEP),
}


@kernel
def copy(
    tile: int, out: Any, to: int, picture: Any, distance: int, plane: int, means: Any, scales: Any,
    count: int, flipped: bool, past: bool,
) -> None:  # fmt: skip
    call_tile(
        tile, out, 16, to, picture, distance, plane, means, scales, LINES, count, flipped, past
    )  # fmt: skip


@pytest.mark.parametrize("kind", CONSTANTS)
@pytest.mark.parametrize(
    ("count", "past"), [(1, False), (7, False), (15, False), (53, False), (48, True), (112, True)]
)
@pytest.mark.parametrize("flipped", [False, True])
def test_pixels_are_brought_into_order_and_only_they_are_written(
    kind: str, count: int, flipped: bool, past: bool
) -> None:
    channels = CONSTANTS[kind][0]
    pixels = np.random.default_rng(1).integers(0, 256, (LINES, count + APART, channels), np.uint8)
    plane, distance = 0, (count + APART) * channels
    picture = pixels
    if kind == "planar":
        picture = np.ascontiguousarray(pixels.transpose(2, 0, 1))
        plane, distance = LINES * (count + APART), count + APART
    if kind == "backwards":
        pixels = pixels[:, :, ::-1]
    shown = pixels[:, :count][:, :: -1 if flipped else 1].reshape(LINES, -1).astype(np.float32)
    size = count * channels
    numbers = np.random.default_rng(0).normal(size=(2, channels)).astype(np.float32)
    means, scales = (np.resize(one, max(size, STEP)) for one in numbers)
    out = aligned_zeros((16 + LINES * (size + 16),))
    out.fill(77)
    copy(
        COPIED.address(*CONSTANTS[kind]), out, size + 16, picture.reshape(-1), distance, plane,
        means, scales, count, flipped, past,
    )  # fmt: skip
    rows = out[16:].reshape(LINES, -1)
    assert_array_equal(rows[:, :size], (shown - means[:size]) * scales[:size])
    assert (rows[:, size:] == 77).all()
    assert (out[:16] == 77).all()
