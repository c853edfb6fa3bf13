from __future__ import annotations

import threading

import numpy as np
import pytest

from knltrain.errors import NonFiniteLoss
from knltrain.evaluation import MOST_CONFUSED, ClassCounts, Evaluation, Evaluator
from knltrain.exchange.transports.loopback import Loopback
from tests.knltrain.data.given import given_images

PARAMETERS = np.array([0.5, 2.0], np.float32)


class SumBackend:
    """The loss of an image is the sum of its values times a parameter; label 1 is always right."""

    def __init__(self, before_each=lambda: None):
        self.batches = []
        self.before_each = before_each

    def first_non_finite(self, batch, parameters):
        return None if np.isfinite(batch.images_nhwc).all() else "conv1"

    def evaluate(self, batch, parameters, logits=None):
        self.before_each()
        self.batches.append(batch.images_nhwc.copy())
        if logits is not None:
            logits[:] = batch.images_nhwc.reshape(len(logits), -1)
        return float(batch.images_nhwc.sum() * parameters[1]), int(batch.labels.sum())


@pytest.fixture
def images():
    """50 images of two small whole numbers, so that sums are exact in any order."""
    values = np.random.default_rng(7).integers(0, 100, size=(50, 1, 2, 1)).astype(np.float32)
    return given_images(values, np.arange(50) % 5 // 4)


@pytest.fixture
def expected(images):
    return Evaluation(0.2, float(images.preprocessing.images_nhwc.sum()) * 2.0 / 50, 50)


@pytest.mark.parametrize("batch", [1, 7, 50, 64])
def test_chunks_do_not_change_what_is_found(images, expected, batch):
    evaluator = Evaluator(images, SumBackend(), Loopback(PARAMETERS.size), batch, 2)
    assert evaluator.evaluate(PARAMETERS, 3) == expected
    assert evaluator.evaluate(PARAMETERS, 3) == expected


def test_no_chunk_is_larger_than_the_backend_was_compiled_for(images):
    backend = SumBackend()
    Evaluator(images, backend, Loopback(PARAMETERS.size), 16, 2).evaluate(PARAMETERS, 3)
    assert [len(batch) for batch in backend.batches] == [16, 16, 16, 2]


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_the_images_and_all_get_the_same_answer(
    in_threads, images, expected, workers
):
    backends = [SumBackend() for _ in range(workers)]

    def evaluate(transport):
        return Evaluator(images, backends[transport.rank], transport, 8, 2).evaluate(PARAMETERS, 3)

    assert in_threads(PARAMETERS.size, workers, evaluate) == [expected] * workers
    for rank, backend in enumerate(backends):
        np.testing.assert_array_equal(
            np.concatenate(backend.batches), images.preprocessing.images_nhwc[rank::workers]
        )


def test_worker_without_images_still_learns_the_answer(in_threads, images):
    two = given_images(images.preprocessing.images_nhwc[3:5], images.labels[3:5], 2)

    def evaluate(transport):
        return Evaluator(two, SumBackend(), transport, 8, 2).evaluate(PARAMETERS, 3)

    answers = in_threads(PARAMETERS.size, 3, evaluate)
    assert {(answer.accuracy, answer.images) for answer in answers} == {(0.5, 2)}


def test_nobody_returns_while_another_still_reads_the_model(in_threads, images):
    """Otherwise an exchange could change the center under the slower worker's hands."""
    first_returned = threading.Event()
    early = []

    def evaluate(transport):
        if transport.rank == 0:
            Evaluator(images, SumBackend(), transport, 25, 2).evaluate(PARAMETERS, 3)
            first_returned.set()
        else:
            slow = SumBackend(lambda: early.append(first_returned.wait(0.05)))
            Evaluator(images, slow, transport, 10, 2).evaluate(PARAMETERS, 3)

    in_threads(PARAMETERS.size, 2, evaluate)
    assert early == [False] * 3


def test_not_finite_loss_is_an_error_for_every_worker(in_threads, images):
    images.preprocessing.images_nhwc[20] = np.inf  # an image of worker 0

    def evaluate(transport):
        with pytest.raises(NonFiniteLoss) as raised:
            Evaluator(images, SumBackend(), transport, 8, 2).evaluate(PARAMETERS, 3)
        return raised.value.step, raised.value.layer

    assert in_threads(PARAMETERS.size, 2, evaluate) == [(3, "conv1"), (3, None)]


def by_class(in_threads, classes, workers, count=173, batch=8):
    """What every worker finds of random logits with many ties, and the logits and labels."""
    random = np.random.default_rng(classes)
    logits = random.integers(0, 6, (count, 1, 1, classes)).astype(np.float32)
    labels = random.integers(0, classes - 1, count)  # no image of the last class
    images = given_images(logits, labels)

    def evaluate(transport):
        evaluator = Evaluator(images, SumBackend(), transport, batch, classes)
        assert evaluator.evaluate(PARAMETERS, 3).classes is None
        return evaluator.evaluate(PARAMETERS, 3, by_class=True).classes

    (found, *others) = in_threads(PARAMETERS.size, workers, evaluate)
    assert others == [found] * (workers - 1)
    return found, logits.reshape(count, classes), labels


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("classes", [3, 5, 6, 10, MOST_CONFUSED + 1])
def test_classes_are_counted_alike_by_any_number_of_workers(in_threads, classes, workers):
    found, logits, labels = by_class(in_threads, classes, workers)
    order = np.argsort(-logits, axis=1, kind="stable")  # of equal logits the first comes first
    best = order[:, 0]
    assert found.images == tuple(int((labels == c).sum()) for c in range(classes))
    assert found.names[:2] == ("0", "1")
    assert found.right == tuple(int(((labels == c) & (best == c)).sum()) for c in range(classes))
    near = int((order[:, :5] == labels[:, None]).any(axis=1).sum())
    assert found.near == (near if classes > 5 else None)
    if classes > MOST_CONFUSED:
        assert found.confusion is None
        return
    for c in range(classes):
        row = tuple(int(((labels == c) & (best == k)).sum()) for k in range(classes))
        assert found.confusion[c] == row


def test_accuracies_are_shares_of_the_images_of_a_class():
    counts = ClassCounts((4, 0, 6), (3, 0, 6), None, None)
    assert counts.accuracies == (0.75, None, 1.0)
    assert counts.top5_accuracy is None
    assert ClassCounts((4, 0, 6), (3, 0, 6), 9, None).top5_accuracy == 0.9


@pytest.mark.parametrize("workers", [1, 3])
def test_each_class_is_counted_where_images_have_several(in_threads, workers):
    random = np.random.default_rng(6)
    logits = random.normal(size=(40, 1, 1, 7)).astype(np.float32)
    targets = random.integers(0, 2, (40, 7)).astype(np.float32)

    def evaluate(transport):
        images = given_images(logits, targets)
        evaluator = Evaluator(images, SumBackend(), transport, 8, 7, several=True)
        return evaluator.evaluate(PARAMETERS, 3, by_class=True).classes

    found = in_threads(PARAMETERS.size, workers, evaluate)[0]
    right = ((logits.reshape(40, 7) > 0) == (targets > 0)).sum(axis=0)
    assert (found.images, found.right) == ((40,) * 7, tuple(right.tolist()))
    assert (found.near, found.confusion, found.top5_accuracy) == (None, None, None)


def test_shares_count_as_their_largest_class(in_threads):
    logits = np.eye(3, dtype=np.float32)[[0, 1, 1]].reshape(3, 1, 1, 3)
    shares = np.array([[0.6, 0.4, 0], [0.5, 0.5, 0], [0.1, 0.7, 0.2]], np.float32)

    def evaluate(transport):
        evaluator = Evaluator(given_images(logits, shares), SumBackend(), transport, 2, 3)
        return evaluator.evaluate(PARAMETERS, 3, by_class=True).classes

    (found,) = in_threads(PARAMETERS.size, 1, evaluate)
    assert found.confusion == ((1, 1, 0), (0, 1, 0), (0, 0, 0))
