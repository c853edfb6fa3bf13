"""The digits that come with knltrain."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.digits import ARCHIVE, load_digits
from knltrain.errors import DataError
from tests.knltrain.data.given import images_of


def test_every_fifth_digit_is_for_testing() -> None:
    dataset = load_digits()
    assert (len(dataset.train), len(dataset.test)) == (1438, 359)
    assert dataset.train.image_shape == dataset.test.image_shape == (28, 28, 1)
    # The file starts with 0, 1, 2, 3, 4, 5, 6, 7, 8, 9.
    assert dataset.train.labels[:8].tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert dataset.test.labels[:2].tolist() == [4, 9]


def test_all_classes_are_well_represented_in_both_halves() -> None:
    dataset = load_digits()
    assert np.bincount(dataset.train.labels).min() > 100
    assert np.bincount(dataset.test.labels).min() > 20
    assert dataset.train.class_names == tuple(map(str, range(10)))


def test_description_gives_credit() -> None:
    description = load_digits().description
    assert "E. Alpaydin and C. Kaynak" in description
    assert "doi:10.24432/C50P49" in description
    assert "CC BY 4.0" in description


def test_a_zero_is_dark_in_the_middle_and_a_one_is_bright_there() -> None:
    dataset = load_digits()
    middle = images_of(dataset.train)[:, 12:16, 12:16, 0].mean(axis=(1, 2))
    labels = dataset.train.labels
    assert middle[labels == 0].mean() < 60
    assert middle[labels == 1].mean() > 160


def test_corners_of_the_enlarged_images_are_those_of_the_small_ones() -> None:
    with np.load(ARCHIVE) as archive:
        first = archive["images"][0]
    large = images_of(load_digits().train)[0, :, :, 0]
    assert np.array_equal(large[::27, ::27], np.rint(first[::7, ::7] * (255 / 16)))
    assert large.max() > 200


def test_fewer_digits_are_the_first_ones() -> None:
    dataset = load_digits(train_images=3, test_images=1)
    assert dataset.train.labels.tolist() == [0, 1, 2]
    assert dataset.test.labels.tolist() == [4]


def test_more_digits_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match=r"data\.train_images = 1439, but digits holds 1438"):
        load_digits(train_images=1439)
