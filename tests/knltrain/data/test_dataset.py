"""Images and labels fit together, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.dataset import Batch, Dataset, Halves, check_labels, first_images
from knltrain.data.source import ArraySource
from knltrain.errors import DataError
from tests.knltrain.data.given import given_images, source_of


def test_labelled_images_know_their_number_and_shape() -> None:
    images = given_images(np.zeros((3, 4, 5, 2), np.float32), np.zeros(3, np.int64))
    assert len(images) == 3
    assert images.image_shape == (4, 5, 2)


def test_images_and_labels_are_written_in_place() -> None:
    values = np.arange(6, dtype=np.float32).reshape(6, 1, 1, 1)
    out = Batch.allocate(2, (1, 1, 1))
    given_images(values, np.arange(6)).write(np.array([4, 1]), out)
    assert out.images_nhwc.ravel().tolist() == out.labels.tolist() == [4, 1]


def test_allocated_batch_has_the_shapes_and_types_of_training() -> None:
    batch = Batch.allocate(2, (4, 5, 3))
    assert (batch.images_nhwc.shape, batch.images_nhwc.dtype) == ((2, 4, 5, 3), np.float32)
    assert (batch.labels.shape, batch.labels.dtype) == ((2,), np.int64)
    assert (batch.key.shape, batch.key.dtype) == ((1,), np.uint64)
    assert not batch.images_nhwc.any()
    assert not batch.labels.any()
    assert not batch.key.any()


def test_every_batch_has_a_key_of_its_own() -> None:
    one, other = Batch.allocate(2, (4, 5, 3)), Batch(np.zeros((1, 1, 1, 1)), np.zeros(1, np.int64))
    one.key[:] = 7
    assert other.key.tolist() == [0]


@pytest.mark.parametrize("wrong", [10, -1])
def test_label_out_of_range_names_file_index_and_label(wrong: int) -> None:
    labels = np.array([0, 9, wrong, 3])
    with pytest.raises(DataError, match=rf"some/file: label {wrong} at index 2 .* 0 to 9 \(1 of 4"):
        check_labels(labels, 10, "some/file")


def test_labels_in_range_pass() -> None:
    check_labels(np.array([0, 9], np.uint8), 10, "some/file")


def test_first_images_keeps_as_many_as_asked_for() -> None:
    images = np.arange(5)
    assert images[first_images(images, 3, "data.train_images", "it")].tolist() == [0, 1, 2]
    assert images[first_images(images, 5, "data.train_images", "it")].size == 5
    assert images[first_images(images, None, "data.train_images", "it")].size == 5


def test_more_images_than_there_are_names_key_and_number() -> None:
    with pytest.raises(DataError, match=r"data\.test_images = 6, but it holds 5"):
        first_images(np.arange(5), 6, "data.test_images", "it")


def test_halves_that_do_not_fit_together_are_refused() -> None:
    def half(side: int = 4, classes: int = 3, targets: bool = False) -> ArraySource:
        labels = np.zeros((3, classes), np.float32) if targets else np.zeros(3, np.int64)
        return source_of(np.zeros((3, side, 4, 1), np.uint8), labels, classes)

    assert Halves("pair", half(), half()).contents.name == "pair"
    expected = r"pair: image shape \(H, W, C\) of the training half: \(4, 4, 1\), of the test half"
    with pytest.raises(DataError, match=expected):
        Halves("pair", half(), half(side=5))
    with pytest.raises(DataError, match="class names of the training half"):
        Halves("pair", half(), half(classes=4))
    with pytest.raises(DataError, match=r"label shape of the training half: \(3,\)"):
        Halves("pair", half(targets=True), half())


def test_labels_may_be_targets() -> None:
    half = given_images(np.zeros((3, 4, 5, 2), np.float32), np.zeros((3, 7), np.float32))
    assert half.label_shape == (7,)
    assert Batch.allocate(2, (4, 5, 2), half.label_shape).labels.dtype == np.float32
    assert Dataset("targets", half, half).classes == 7
