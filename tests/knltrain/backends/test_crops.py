"""Several crops of a picture are evaluated together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from knltrain.backends.crops import CropMeans
from knltrain.data.dataset import Batch
from knltrain.errors import NonFiniteLoss
from knltrain.evaluation import Evaluator
from knltrain.exchange.transports.loopback import Loopback
from tests.knltrain.data.given import given_images

CLASSES, COUNT = 4, 6
PARAMETERS = np.zeros(1, np.float32)


class ValuesAreLogits:
    """A backend whose network gives its input back."""

    def evaluate(self, batch: Batch, _parameters: Any, logits: Any = None) -> tuple[float, int]:
        logits[:] = batch.images_nhwc.reshape(len(logits), -1)
        return 0.0, 0

    def first_non_finite(self, _batch: Batch, _parameters: Any) -> str | None:
        return None


@pytest.fixture
def values() -> np.ndarray:
    """Logits of three crops of each picture."""
    return np.random.default_rng(1).normal(size=(3, COUNT, 1, 1, CLASSES)).astype(np.float32)


def _mean(values: np.ndarray) -> np.ndarray:
    logits = values.reshape(3, COUNT, CLASSES).astype(np.float64)
    powers = np.exp(logits)
    found: np.ndarray = (powers / powers.sum(axis=2, keepdims=True)).mean(axis=0)
    return found


def test_the_mean_of_softmax_is_what_counts(values: np.ndarray) -> None:
    labels = np.arange(COUNT) % CLASSES
    crops = [given_images(each, labels, CLASSES) for each in values]
    means, rows = CropMeans(crops, ValuesAreLogits(), 4, CLASSES), np.array([5, 1, 2])
    chunk, logits = Batch.allocate(3, (1, 1, CLASSES)), np.empty((3, CLASSES), np.float32)
    loss, right = means.evaluate(rows, chunk, PARAMETERS, logits)
    expected = _mean(values)[rows]
    assert loss == pytest.approx(-np.log(expected[range(3), labels[rows]]).sum(), rel=1e-6)
    assert right == (expected.argmax(axis=1) == labels[rows]).sum()
    assert np.exp(logits) == pytest.approx(expected, rel=1e-5)


def test_labels_may_be_shares_of_classes(values: np.ndarray) -> None:
    shares = np.random.default_rng(2).dirichlet(np.ones(CLASSES), COUNT).astype(np.float32)
    crops = [given_images(each, shares) for each in values]
    chunk = Batch.allocate(COUNT, (1, 1, CLASSES), (CLASSES,))
    means = CropMeans(crops, ValuesAreLogits(), COUNT, CLASSES)
    loss, right = means.evaluate(np.arange(COUNT), chunk, PARAMETERS)
    assert loss == pytest.approx(-(shares * np.log(_mean(values))).sum(), rel=1e-6)
    assert right == (_mean(values).argmax(axis=1) == shares.argmax(axis=1)).sum()


@pytest.mark.parametrize("batch", [1, 4, 10])
def test_evaluations_take_the_crops(values: np.ndarray, batch: int) -> None:
    labels = np.arange(COUNT) % CLASSES
    crops = [given_images(each, labels, CLASSES) for each in values]
    evaluator = Evaluator(crops[0], ValuesAreLogits(), Loopback(1), batch, CLASSES, False, crops)
    found = evaluator.evaluate(PARAMETERS, 3, by_class=True)
    right = _mean(values).argmax(axis=1) == labels
    assert found.accuracy == pytest.approx(right.mean())
    assert found.classes is not None
    assert sum(found.classes.right) == right.sum()


def test_outputs_that_are_not_finite_end_the_evaluation(values: np.ndarray) -> None:
    values[1, 2] = np.inf
    crops = [given_images(each, np.zeros(COUNT, np.int64), CLASSES) for each in values]
    evaluator = Evaluator(crops[0], ValuesAreLogits(), Loopback(1), 4, CLASSES, False, crops)
    with pytest.raises(NonFiniteLoss):
        evaluator.evaluate(PARAMETERS, 3)
