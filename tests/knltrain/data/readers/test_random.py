from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.readers.random import RandomSource, load_random

SHAPES = [(224, 224, 3), (28, 28, 1), (1, 3, 3), (7, 5, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_picture_is_a_function_of_its_number_and_half(shape: tuple[int, int, int]) -> None:
    source = RandomSource(10, shape, 3, 0)
    picture = source.picture(4)
    assert (picture.shape, picture.dtype) == (shape, np.uint8)
    np.testing.assert_array_equal(picture, RandomSource(5, shape, 3, 0).picture(4))
    out = np.empty((2, *shape), np.uint8)
    source.read(np.array([4, 0]), out)
    np.testing.assert_array_equal(out[0], picture)
    assert (picture != source.picture(1)).any()
    assert (picture != RandomSource(10, shape, 3, 1).picture(4)).any()


def test_a_set_as_large_as_imagenet_takes_no_memory_for_pictures() -> None:
    halves = load_random((224, 224, 3), 1000, 1_281_167, 50_000)
    assert (len(halves.train), len(halves.test)) == (1_281_167, 50_000)
    assert halves.train.held_bytes == 0
    assert len(halves.train.class_names) == 1000
    assert halves.train.labels[-1] == 1_281_166 % 1000
    assert (halves.train.picture(1_281_166) != halves.train.picture(166)).any()


def test_pictures_stay_the_same_from_version_to_version() -> None:
    picture = RandomSource(3, (4, 4, 1), 2, 0).picture(2)
    assert picture[..., 0].tolist() == [
        [182, 63, 166, 193],
        [167, 135, 89, 167],
        [114, 161, 154, 143],
        [143, 165, 111, 150],
    ]


def test_classes_can_be_told_but_not_by_single_pixels() -> None:
    """By the nearest mean of 40 pictures of each class."""
    source = RandomSource(1000, (28, 28, 1), 10, 0)
    pictures = np.stack([source.picture(row) for row in range(1000)]).astype(np.float32)
    pictures = pictures.reshape(1000, -1)
    means = np.stack([pictures[number:400:10].mean(axis=0) for number in range(10)])
    distances = ((pictures[400:, None] - means) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == source.labels[400:]).mean() > 0.9
    spread = means.std(axis=0).mean()
    assert spread < 0.5 * pictures.std()


def test_contents_tell_sets_apart() -> None:
    sets = [
        (10, (8, 8, 1), 3, 0),
        (9, (8, 8, 1), 3, 0),
        (10, (8, 9, 1), 3, 0),
        (10, (8, 8, 1), 4, 0),
    ]
    digests = {RandomSource(*each).contents().digest for each in [*sets, (10, (8, 8, 1), 3, 1)]}
    assert len(digests) == 5
