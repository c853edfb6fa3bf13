"""The synthetic images with several classes."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.synthetic_labels import EXTENT, MOST_PATCHES, load_synthetic_labels
from knltrain.errors import DataError
from tests.knltrain.data.given import images_of


def test_images_have_up_to_three_classes_or_none() -> None:
    found = load_synthetic_labels(600, 200)
    targets = found.train.labels
    assert targets.shape == (600, 10)
    assert targets.dtype == np.float32
    assert found.train.labels.shape[1:] == found.test.labels.shape[1:] == EXTENT.label_shape
    assert set(np.unique(targets)) == {0.0, 1.0}
    assert set(targets.sum(axis=1).astype(int)) == set(range(MOST_PATCHES + 1))
    assert targets.sum(axis=0).min() > 50


def test_images_with_patches_differ_from_those_without() -> None:
    found = load_synthetic_labels(600, 10)
    spread = images_of(found.train).reshape(600, -1).std(axis=1)
    none = found.train.labels.sum(axis=1) == 0
    assert spread[none].max() < spread[~none].mean()


def test_first_images_are_the_same_however_many_are_asked_for() -> None:
    fewer, more = load_synthetic_labels(40, 10), load_synthetic_labels(700, 10)
    assert fewer.train.labels.tolist() == more.train.labels[:40].tolist()
    assert fewer.contents != more.contents


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match=r"data\.test_images = 2001, but synthetic-labels holds"):
        load_synthetic_labels(10, 2001)
