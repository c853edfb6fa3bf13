"""The synthetic images."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.dataset import Halves
from knltrain.data.synthetic import load_synthetic
from knltrain.errors import DataError
from tests.knltrain.data.given import images_of


@pytest.fixture(scope="module")
def dataset() -> Halves:
    return load_synthetic(1500, 500)


def test_images_are_of_cifar_s_size_and_use_their_bytes_well(dataset: Halves) -> None:
    train = images_of(dataset.train)
    assert dataset.train.image_shape == dataset.test.image_shape == (32, 32, 3)
    assert (len(dataset.train), len(dataset.test)) == (1500, 500)
    assert len(dataset.train.class_names) == 10
    assert train.std(dtype=np.float64) > 10  # bytes: rounding is little beside it
    assert np.mean((train == 0) | (train == 255)) < 1e-3
    assert dataset.name == "synthetic"
    assert dataset.description.startswith("synthetic")


def test_all_classes_are_well_represented_in_both_halves(dataset: Halves) -> None:
    assert np.bincount(dataset.train.labels, minlength=10).min() > 100
    assert np.bincount(dataset.test.labels, minlength=10).min() > 25


def test_first_images_are_the_same_however_many_are_asked_for(dataset: Halves) -> None:
    fewer = load_synthetic(700, 100)
    assert fewer.train.labels.tolist() == dataset.train.labels[:700].tolist()
    assert fewer.test.labels.tolist() == dataset.test.labels[:100].tolist()
    assert np.array_equal(images_of(fewer.test), images_of(dataset.test)[:100])


def test_halves_have_nothing_in_common(dataset: Halves) -> None:
    train, test = (images_of(each)[:500] for each in (dataset.train, dataset.test))
    assert abs(np.corrcoef(train.ravel(), test.ravel())[0, 1]) < 0.05


def test_what_is_linear_in_the_pixels_learns_little(dataset: Halves) -> None:
    """Least squares with a penalty: the colours that classes lean towards, hardly more."""
    images = (images_of(dataset.train).reshape(1500, -1) - 100) / 24
    targets = np.eye(10)[dataset.train.labels] - 0.1
    kernel = images @ images.T
    weights = np.linalg.solve(kernel + 30_000 * np.eye(1500), targets)
    tests = (images_of(dataset.test).reshape(500, -1) - 100) / 24
    right = (tests @ images.T @ weights).argmax(1) == dataset.test.labels
    assert 0.15 < right.mean() < 0.4


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match=r"data\.test_images = 10001, but synthetic holds 10000"):
        load_synthetic(10, 10_001)
