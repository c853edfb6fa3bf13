"""Images and labels fit together, or are refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from knltrain.data.dataset import (
    Batch,
    Dataset,
    LabelledImages,
    check_labels,
    first_images,
    standardised,
)
from knltrain.errors import DataError


def test_labelled_images_know_their_number_and_shape() -> None:
    images = LabelledImages(np.zeros((3, 4, 5, 2), np.float32), np.zeros(3, np.int64))
    assert len(images) == 3
    assert images.image_shape == (4, 5, 2)


@pytest.mark.parametrize("shape", [(3, 4, 4, 1), (2, 4, 4)])
def test_images_that_do_not_fit_the_labels_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"labels \(2,\) do not fit: expected \(N, H, W, C\)"):
        LabelledImages(np.zeros(shape, np.float32), np.zeros(2, np.int64))


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


def test_standardised_uses_the_training_images_alone() -> None:
    generator = np.random.default_rng(3)
    train = generator.uniform(0, 255, (20, 4, 4, 1)).astype(np.float32)
    test = generator.uniform(0, 50, (7, 4, 4, 1)).astype(np.float32)
    scaled_train, scaled_test = standardised(train.copy(), test.copy())
    assert scaled_train.dtype == scaled_test.dtype == np.float32
    assert scaled_train.mean(dtype=np.float64) == pytest.approx(0, abs=1e-6)
    assert scaled_train.std(dtype=np.float64) == pytest.approx(1, abs=1e-6)
    expected = (test - train.mean(dtype=np.float64)) / train.std(dtype=np.float64)
    np.testing.assert_allclose(scaled_test, expected, rtol=1e-5, atol=1e-6)


def test_standardising_takes_no_memory_for_a_second_data_set() -> None:
    train, test = (np.random.default_rng(1).random((n, 28, 28, 1), np.float32) for n in (4000, 500))
    tracemalloc.start()
    try:
        scaled_train, scaled_test = standardised(train, test)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert scaled_train is train
    assert scaled_test is test
    assert peak_bytes < train.nbytes / 3


def test_images_without_contrast_are_refused() -> None:
    constant = np.full((2, 3, 3, 1), 7, np.float32)
    with pytest.raises(DataError, match=r"all pixels of the training images are 7\.0"):
        standardised(constant, constant)


def test_half_without_images_is_refused() -> None:
    with pytest.raises(DataError, match="there are no images"):
        LabelledImages(np.zeros((0, 4, 5, 2), np.float32), np.zeros(0, np.int64))


def test_halves_of_other_shapes_are_refused_before_anything_is_learned() -> None:
    halves = (
        LabelledImages(np.zeros((3, side, 4, 1), np.float32), np.zeros(3, np.int64))
        for side in (4, 5)
    )
    expected = r"pair: .* training have \(H, W, C\) = \(4, 4, 1\), those for testing \(5, 4, 1\)"
    with pytest.raises(DataError, match=expected):
        Dataset("pair", *halves, classes=10)


def test_labels_may_be_targets() -> None:
    images = np.zeros((3, 4, 5, 2), np.float32)
    half = LabelledImages(images, np.zeros((3, 7), np.float32))
    assert half.label_shape == (7,)
    assert Batch.allocate(2, (4, 5, 2), half.label_shape).labels.dtype == np.float32
    Dataset("targets", half, half, classes=7)
    with pytest.raises(DataError, match=r"expected \(\) of both, classes, or \(6,\)"):
        Dataset("targets", half, half, classes=6)
    with pytest.raises(DataError, match="labels for training have shape"):
        Dataset("targets", half, LabelledImages(images, np.zeros(3, np.int64)), classes=7)
    with pytest.raises(DataError, match=r"labels \(3, 7\) are int64"):
        LabelledImages(images, np.zeros((3, 7), np.int64))
