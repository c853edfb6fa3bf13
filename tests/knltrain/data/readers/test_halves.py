from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.data.contents import contents_of
from knltrain.data.dataset import Halves
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.halves import open_halves
from knltrain.data.source import ArraySource, ImageSource
from knltrain.errors import DataError


def source(labels: list[int], names: tuple[str, ...] = (), side: int = 4) -> ArraySource:
    pixels = np.arange(len(labels), dtype=np.uint8)[:, None, None, None] + np.zeros(
        (1, side, side, 1), np.uint8
    )
    values = np.array(labels)
    return ArraySource(pixels, values, names, contents_of(pixels, values), "here")


def opened(
    train: ImageSource, test: ImageSource | None, *limits: int | None, **files: object
) -> Halves:
    def open_half(_files: DataFiles, half: HalfName) -> ImageSource | None:
        return train if half == "train" else test

    return open_halves("idx", open_half, DataFiles(Path("/data"), **files), *limits)


def test_both_halves_get_the_same_names() -> None:
    halves = opened(source([0, 1, 2, 0]), source([1, 0, 2]))
    assert (halves.name, halves.description, halves.notes) == ("idx", "idx from /data", ())
    assert halves.train.class_names == halves.test.class_names == ("0", "1", "2")
    named = opened(source([0, 1], ("cat", "dog")), source([1, 0]))
    assert named.test.class_names == ("cat", "dog")


def test_the_first_images_are_kept() -> None:
    halves = opened(source([0, 1, 0, 1]), source([1, 0]), 3, 1)
    assert (len(halves.train), len(halves.test)) == (3, 1)
    with pytest.raises(DataError, match=r"data\.test_images = 3, but idx holds 2 test images"):
        opened(source([0, 1, 0, 1]), source([1, 0]), 3, 3)


def test_a_share_of_each_class_is_for_testing() -> None:
    labels = [0] * 10 + [1] * 5 + [0] * 10
    halves = opened(source(labels), None, test_share=0.2)
    assert np.bincount(halves.test.labels).tolist() == [4, 1]
    assert np.bincount(halves.train.labels).tolist() == [16, 4]
    both = (halves.train, halves.test)
    found = [half.picture(row)[0, 0, 0] for half in both for row in range(len(half))]
    assert sorted(found) == list(range(25))
    again = opened(source(labels), None, test_share=0.2)
    assert halves.contents == again.contents
    cyclic = opened(source([0, 1, 2, 3] * 8), None, test_share=0.25)
    assert np.bincount(cyclic.test.labels).tolist() == [2, 2, 2, 2]


def test_targets_are_split_as_one_class() -> None:
    pixels, targets = np.zeros((10, 4, 4, 1), np.uint8), np.eye(10, 3, dtype=np.float32)
    whole = ArraySource(pixels, targets, (), contents_of(pixels, targets), "here")
    halves = opened(whole, None, test_share=0.5)
    assert (len(halves.train), len(halves.test)) == (5, 5)
    assert halves.train.class_names == ("0", "1", "2")


def test_a_missing_test_half_is_told_with_the_ways_out() -> None:
    with pytest.raises(DataError, match=r"no files for test images in /data: .*data\.test_share"):
        opened(source([0, 1]), None)
    with pytest.raises(DataError, match=r"test_share = 0\.01: 0 of 4 images would be for testing"):
        opened(source([0, 1, 0, 1]), None, test_share=0.01)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (source([0, 1], ("a", "b")), source([0], ("b", "a")), "'a', 'b' for training, 'b', 'a'"),
        (source([0, 2], ("a", "b")), source([0]), "here, image 1: label 2 at index 1 .* 0 to 1"),
        (source([1, 2], ("a", "b")), source([1]), "from 1 to 2, .*set data.first_label = 1"),
        (source([0, 1]), source([0], side=5), r"\(4, 4, 1\), of the test half: \(5, 5, 1\)"),
    ],
)
def test_halves_that_do_not_fit_are_refused(
    train: ImageSource, test: ImageSource, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        opened(train, test)


def test_labels_without_names_that_count_from_one_get_a_hint() -> None:
    (note,) = opened(source([1, 2, 3]), source([1])).notes
    assert note.startswith("no image has label 0, all others up to 3")
    assert note.endswith("set data.first_label = 1")


def test_empty_classes_are_noted() -> None:
    names = tuple("abcdefgh")
    notes = opened(source([0, 1], names), source([0, 1, 7], names)).notes
    assert notes == (
        "there are no training images of 6 of 8 classes: 'c', 'd', 'e', 'f', 'g' and 1 more",
        "there are no test images of 5 of 8 classes: 'c', 'd', 'e', 'f', 'g'",
    )


def test_test_images_beside_a_share_for_testing_are_noted() -> None:
    (note,) = opened(source([0, 1] * 5), source([0, 1]), test_share=0.2).notes
    assert note.startswith("data.test_share = 0.2: the 2 images for testing in /data are not used")
    assert opened(source([0, 1] * 5), None, test_share=0.2).notes == ()
