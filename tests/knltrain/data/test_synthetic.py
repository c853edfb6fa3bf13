"""The synthetic images."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.dataset import Dataset
from knltrain.data.synthetic import load_synthetic
from knltrain.errors import DataError


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_synthetic(1500, 500)


def test_images_are_of_cifar_s_size_and_standardised(dataset: Dataset) -> None:
    train = dataset.train.images_nhwc
    assert dataset.train.image_shape == dataset.test.image_shape == (32, 32, 3)
    assert (len(dataset.train), len(dataset.test), dataset.classes) == (1500, 500, 10)
    assert train.dtype == np.float32
    assert train.mean(dtype=np.float64) == pytest.approx(0, abs=1e-5)
    assert train.std(dtype=np.float64) == pytest.approx(1, abs=1e-5)
    assert dataset.name == "synthetic"
    assert dataset.description.startswith("synthetic")


def test_all_classes_are_well_represented_in_both_halves(dataset: Dataset) -> None:
    assert np.bincount(dataset.train.labels, minlength=10).min() > 100
    assert np.bincount(dataset.test.labels, minlength=10).min() > 25


def test_first_images_are_the_same_however_many_are_asked_for(dataset: Dataset) -> None:
    fewer = load_synthetic(700, 100)
    assert fewer.train.labels.tolist() == dataset.train.labels[:700].tolist()
    assert fewer.test.labels.tolist() == dataset.test.labels[:100].tolist()
    # But for the scale, which is that of the training images.
    ours, theirs = fewer.test.images_nhwc, dataset.test.images_nhwc[:100]
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.99999


def test_halves_have_nothing_in_common(dataset: Dataset) -> None:
    train, test = (each.images_nhwc[:500] for each in (dataset.train, dataset.test))
    assert abs(np.corrcoef(train.ravel(), test.ravel())[0, 1]) < 0.05


def test_what_is_linear_in_the_pixels_learns_little(dataset: Dataset) -> None:
    """Least squares with a penalty: the colours that classes lean towards, hardly more."""
    images = dataset.train.images_nhwc.reshape(1500, -1).astype(np.float64)
    targets = np.eye(10)[dataset.train.labels] - 0.1
    kernel = images @ images.T
    weights = np.linalg.solve(kernel + 30_000 * np.eye(1500), targets)
    tests = dataset.test.images_nhwc.reshape(500, -1)
    right = (tests @ images.T @ weights).argmax(1) == dataset.test.labels
    assert 0.15 < right.mean() < 0.4


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match=r"data\.test_images = 10001, but synthetic holds 10000"):
        load_synthetic(10, 10_001)
