from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.kernels.pictures.copying import (
    FACTS,
    INTERLEAVED,
    PLANAR,
    REVERSED,
    copied_box,
    tile_of,
)

TALL, WIDE = 4, 70


@pytest.mark.parametrize("width", [1, 5, 16, 17, 40, 70])
@pytest.mark.parametrize("layout", [INTERLEAVED, REVERSED, PLANAR])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("corner", [(0, 0), (1, 3), (-1, -3), (-2, 66), (3, -20), (9, 0), (0, 99)])
def test_lines_of_parts_are_those_of_the_picture_and_zeros_beyond_it(
    width: int, layout: int, flipped: bool, corner: tuple[int, int]
) -> None:
    rng, (top, left) = np.random.default_rng(width), corner
    means, scales = rng.normal(size=(2, 3)).astype(np.float32)
    memory = rng.integers(0, 256, 3 * TALL * WIDE, np.uint8)
    pixels, distance = memory.reshape(TALL, WIDE, 3), 3 * WIDE
    if layout == PLANAR:
        pixels, distance = memory.reshape(3, TALL, WIDE).transpose(1, 2, 0), WIDE
    pixels = pixels[:, :, ::-1] if layout == REVERSED else pixels
    fact = np.zeros(FACTS, np.int64)
    tile, address = tile_of(layout, width, 3), memory.ctypes.data
    fact[:] = address, distance, TALL * WIDE, layout, TALL, WIDE, flipped, 1, tile, top, left
    first, last = 1, 4
    room = np.full(3 * 3 * width + 16, 77, np.float32)
    line = max(3 * width, 48)
    copied_box(
        fact, first, last, room, width, 3, np.resize(means, line), np.resize(scales, line), False
    )
    around = np.pad(pixels, ((99, 99), (99, 99), (0, 0)))
    shown = around[99 + top + first : 99 + top + last, 99 + left : 99 + left + width]
    shown = shown[:, :: -1 if flipped else 1].astype(np.float32)
    assert_array_equal(room[:-16], ((shown - means) * scales).reshape(-1))
    assert (room[-16:] == 77).all()


def test_only_narrow_images_of_one_channel_take_short_steps() -> None:
    assert tile_of(PLANAR, 48, 1) == tile_of(PLANAR, 99, 1) != tile_of(PLANAR, 47, 1)
    assert tile_of(PLANAR, 47, 3) == tile_of(PLANAR, 99, 3)
