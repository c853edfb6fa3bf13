"""Pictures of one array."""

from __future__ import annotations

import numpy as np

from vectorized_ops.pictures import PicturesOf

PIXELS = np.arange(5 * 2 * 2 * 3, dtype=np.uint8).reshape(5, 2, 2, 3)


def test_pictures_are_views_in_the_order_of_their_numbers() -> None:
    some = PicturesOf(PIXELS, np.array([3, 1, 3]))
    assert len(some) == 3
    assert np.array_equal(list(some), PIXELS[[3, 1, 3]])
    assert np.shares_memory(some[1], PIXELS)
    assert np.array_equal(list(some[1:]), PIXELS[[1, 3]])


def test_channels_are_reversed_without_a_copy() -> None:
    turned = PicturesOf(PIXELS, np.array([4])).reversed()
    assert np.array_equal(turned[0], PIXELS[4, :, :, ::-1])
    assert np.shares_memory(turned[0], PIXELS)
