from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation.mixing import Mixing, beta
from knltrain.data.augmentation.random_words import RandomWords
from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.preprocessing import Draws
from knltrain.data.source import ArraySource
from tests.knltrain.data.given import Given, source_of

COUNT, SIDE = 400, 6


def _images(mixup: float, cutmix: float, labels: np.ndarray | None = None) -> LabelledImages:
    """Image i has the value i everywhere, and the class i."""
    values = np.broadcast_to(
        np.arange(COUNT, dtype=np.float32)[:, None, None, None], (COUNT, SIDE, SIDE, 1)
    )
    labels = np.arange(COUNT) if labels is None else labels
    source: ArraySource = source_of(np.zeros(values.shape, np.uint8), labels)
    return LabelledImages(source, Given(values), Mixing(mixup, cutmix))


def _batch(images: LabelledImages, rows: np.ndarray) -> Batch:
    out = Batch.allocate(len(rows), images.image_shape, images.label_shape)
    images.write(rows, out, Draws(2, 3))
    return out


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.2, 0), (0, 1), (0.4, 0.7)])
def test_images_are_mixed_as_their_targets_say(mixup: float, cutmix: float) -> None:
    images = _images(mixup, cutmix)
    batch = _batch(images, np.arange(COUNT))
    assert batch.labels.shape == (COUNT, COUNT)
    assert np.allclose(batch.labels.sum(axis=1), 1, atol=1e-6)
    means = batch.images_nhwc.mean(axis=(1, 2, 3))
    assert np.allclose(means, batch.labels @ np.arange(COUNT, dtype=np.float32), atol=1e-2)
    kinds = np.array([len(np.unique(image)) for image in batch.images_nhwc])
    own = batch.labels[np.arange(COUNT), np.arange(COUNT)]
    if not cutmix:
        assert (kinds == 1).all()
    elif not mixup:
        assert ((kinds == 2) | (own == 1) | (own == 0)).all()
        assert (kinds == 2).sum() > COUNT / 2
    else:
        assert 0.3 * COUNT < (kinds == 2).sum() < 0.6 * COUNT
    least, most = (0.55, 0.8) if cutmix else (0.42, 0.58)  # boxes are cut off at edges
    assert least < own.mean() < most


def test_what_an_image_is_mixed_with_does_not_depend_on_its_batch() -> None:
    images = _images(0.4, 0.7)
    every, rows = _batch(images, np.arange(COUNT)), np.array([7, 300, 21])
    few = _batch(images, rows)
    assert np.array_equal(few.images_nhwc, every.images_nhwc[rows])
    assert np.array_equal(few.labels, every.labels[rows])


def test_targets_are_mixed_as_classes_are() -> None:
    classes = _batch(_images(0.4, 0), np.arange(9))
    targets = _batch(_images(0.4, 0, np.eye(COUNT, dtype=np.float32)), np.arange(9))
    assert np.array_equal(targets.labels, classes.labels)


def test_evaluation_takes_images_and_labels_as_they_are() -> None:
    images = _images(0.4, 0.7)
    out = Batch.allocate(3, images.image_shape)
    images.write(np.array([5, 1, 8]), out)
    assert out.labels.tolist() == [5, 1, 8]
    assert out.images_nhwc[:, 0, 0, 0].tolist() == [5, 1, 8]


@pytest.mark.parametrize("parameter", [0.05, 0.2, 1.0])
def test_shares_have_the_moments_of_the_beta_distribution(parameter: float) -> None:
    words = RandomWords(Draws(1, 1), np.arange(20_000)).words(0, 32).reshape(-1, 16, 2)
    found = beta(words, parameter)
    assert ((found >= 0) & (found <= 1)).all()
    assert found.mean() == pytest.approx(0.5, abs=0.015)
    assert found.var() == pytest.approx(1 / (4 * (2 * parameter + 1)), rel=0.03)
