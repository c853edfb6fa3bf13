"""Images made larger."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.dataset import Dataset, LabelledImages
from knltrain.data.digits import load_digits
from knltrain.data.enlarging import enlarged, enlarged_dataset
from knltrain.errors import DataError


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


def test_dataset_is_enlarged_in_both_halves_and_says_so() -> None:
    digits = load_digits(30, 20)
    large = enlarged_dataset(digits, 56)
    assert large.train.image_shape == large.test.image_shape == (56, 56, 1)
    assert large.train.labels.tolist() == digits.train.labels.tolist()
    assert (large.name, large.classes) == ("digits", 10)
    assert large.description.endswith("enlarged to 56x56")
    corners = digits.test.images_nhwc[:, ::27, ::27]
    np.testing.assert_allclose(large.test.images_nhwc[:, ::55, ::55], corners, rtol=1e-5)


def test_images_are_not_made_smaller() -> None:
    half = LabelledImages(np.zeros((2, 28, 32, 1), np.float32), np.zeros(2, np.int64))
    with pytest.raises(DataError, match=r"data\.side_pixels = 31: images of wide have 28 x 32"):
        enlarged_dataset(Dataset("wide", half, half, 10), 31)
