from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vectorized_ops.numba.kernels.pictures.means import mean_line, mean_pixel, with_mean


@pytest.mark.parametrize("channels", [1, 3])
def test_the_mean_pixel_is_that_of_all(channels: int) -> None:
    image = np.random.default_rng(0).normal(size=(50, channels)).astype(np.float32)
    found = np.zeros(3, np.float32)
    mean_pixel(image.reshape(-1), channels, found)
    assert_allclose(found[:channels], image.mean(axis=0, dtype=np.float64), rtol=1e-6)


def test_the_mean_pixel_is_added_by_its_matrix() -> None:
    rng = np.random.default_rng(1)
    colours, of_mean, mean = (
        rng.normal(size=size).astype(np.float32) for size in ((3, 4), (3, 3), 3)
    )
    out = np.zeros(12, np.float32)
    with_mean(colours.reshape(-1), of_mean.reshape(-1), mean, 3, out)
    assert_array_equal(out.reshape(3, 4)[:, :3], colours[:, :3])
    assert_allclose(out.reshape(3, 4)[:, 3], colours[:, 3] + of_mean @ mean, rtol=1e-5)


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize(("y", "left"), [(2, 1), (2, 0), (-1, -2), (9, 4)])
def test_lines_of_a_mean_picture_go_on_beyond_its_edges(flipped: bool, y: int, left: int) -> None:
    height, width, channels, count = 4, 6, 3, 5
    picture = np.random.default_rng(2).normal(size=(height, width, channels)).astype(np.float32)
    both, room = np.stack((picture, picture[:, ::-1])), np.empty(count * channels, np.float32)
    place = mean_line(both.reshape(-1), y, left, height, width, channels, flipped, room)
    found = room if place < 0 else both.reshape(-1)[place : place + count * channels]
    columns = np.clip(np.arange(left, left + count), 0, width - 1)
    expected = picture[min(max(y, 0), height - 1), columns]
    expected = expected[::-1] if flipped else expected
    assert_array_equal(found, expected.reshape(-1))
    assert (place >= 0) == (0 <= left <= width - count)
