"""Images made larger."""

from __future__ import annotations

import numpy as np

from knltrain.data.enlarging import enlarged


def test_enlarging_twice_interpolates_between_pixel_centres() -> None:
    image = np.array([[0, 8], [0, 8]], np.uint8)[None, :, :, None]
    np.testing.assert_allclose(enlarged(image, 4)[0, 1, :, 0], [0, 2, 6, 8])


def test_enlarging_keeps_constant_images() -> None:
    np.testing.assert_allclose(enlarged(np.full((1, 8, 8, 3), 9, np.uint8), 28), 9, rtol=1e-6)


def test_enlarging_tells_rows_from_columns_and_one_channel_from_the_others() -> None:
    image = np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2)
    large = enlarged(image, 6)
    assert large.shape == (1, 6, 6, 2)
    np.testing.assert_allclose(large[0, 0, 0], [0, 1])
    np.testing.assert_allclose(large[0, 0, -1], [4, 5])
    np.testing.assert_allclose(large[0, -1, 0], [6, 7])
