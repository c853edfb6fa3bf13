"""Losses by their configuration, and labels that fit them."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.assembly import build_dataset
from knltrain.assembly.losses import (
    check_labels,
    loss_of,
    tells_each_class,
    with_balanced_weights,
)
from knltrain.backends.loss import MeanSquaredError, SigmoidCrossEntropy, SoftmaxCrossEntropy
from knltrain.data.dataset import Dataset
from knltrain.errors import ConfigError, DataError
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from tests.knltrain.data.given import given_images

NETWORK = Network("small", (1, 1, 4), (Dense("out", 3),))


def dataset(labels, classes=3):
    labels = np.asarray(labels)
    if labels.ndim == 2:
        labels = labels.astype(np.float32)
    half = given_images(np.zeros((len(labels), 1, 1, 4), np.float32), labels, classes)
    return Dataset("made", half, half)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, SoftmaxCrossEntropy()),
        ({"loss__label_smoothing": 0.1}, SoftmaxCrossEntropy(0.1)),
        ({"loss__class_weights": [1, 2, 3]}, SoftmaxCrossEntropy(0.0, (1.0, 2.0, 3.0))),
        ({"loss__class_weights": "balanced"}, SoftmaxCrossEntropy(0.0, (1.0, 1.0, 1.0))),
        ({"loss__kind": "sigmoid_cross_entropy"}, SigmoidCrossEntropy()),
        ({"loss__kind": "mean_squared_error"}, MeanSquaredError()),
    ],
)
def test_loss_is_that_of_the_configuration(config, changes, expected):
    assert loss_of(config(**changes), NETWORK) == expected


def test_weights_are_one_for_each_output(config):
    with pytest.raises(ConfigError, match=r"class_weights has 2 weights, .*'small' 3 outputs"):
        loss_of(config(loss__class_weights=[1, 2]), NETWORK)


def test_balanced_weights_let_all_classes_count_alike(config):
    balanced = config(loss__class_weights="balanced")
    found = with_balanced_weights(balanced, dataset([0, 1, 1, 1, 2, 2]))
    assert found.loss.class_weights == pytest.approx((2.0, 2 / 3, 1.0))
    shares = dataset([[0.5, 0.5, 0], [0, 0, 1], [0, 1, 0]])
    found = with_balanced_weights(balanced, shares)
    assert found.loss.class_weights == pytest.approx((2.0, 2 / 3, 1.0))
    assert with_balanced_weights(config(), shares) == config()
    with pytest.raises(ConfigError, match="class 1 of data set 'made' has no training images"):
        check_labels(balanced, NETWORK, dataset([0, 2]))


@pytest.mark.parametrize(
    ("kind", "targets", "told"),
    [
        ("softmax_cross_entropy", [0, 1, 1], "shares that add up to 1.*sigmoid_cross_entropy"),
        ("softmax_cross_entropy", [-1, 1, 1], "0 to 1 for each class"),
        ("sigmoid_cross_entropy", [0, 2, 0], "0 to 1 for each class"),
        ("sigmoid_cross_entropy", [0, np.nan, 0], "0 to 1 for each class"),
        ("mean_squared_error", [0, np.inf, 0], "finite numbers"),
    ],
)
def test_targets_that_a_loss_has_not_are_named(config, kind, targets, told):
    wrong = dataset([[0, 1, 0], targets])
    with pytest.raises(DataError, match=rf"made, training images: .* at index 1.*'{kind}'.*{told}"):
        check_labels(config(loss__kind=kind), NETWORK, wrong)


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("softmax_cross_entropy", [0, 1, 2]),
        ("softmax_cross_entropy", [[0.25, 0.75, 0]]),
        ("sigmoid_cross_entropy", [0, 1, 2]),
        ("sigmoid_cross_entropy", [[1, 1, 0], [0, 0, 0]]),
        ("mean_squared_error", [[5, -7, 0]]),
    ],
)
def test_labels_that_a_loss_has_are_taken(config, kind, labels):
    chosen, given = config(loss__kind=kind), dataset(labels)
    check_labels(chosen, NETWORK, given)
    several = kind == "sigmoid_cross_entropy" and given.train.labels.ndim == 2
    assert tells_each_class(chosen, given.test.labels) is several


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "torch"])
def test_runs_take_images_of_several_classes(config, run, tmp_path, backend):
    chosen = config(
        network__name="cifar-quick",
        data__name="synthetic-labels",
        loss__kind="sigmoid_cross_entropy",
        backend__name=backend,
    )
    parameters, *_ = run(chosen, tmp_path)
    assert np.isfinite(parameters).all()


@pytest.mark.slow
def test_runs_balance_the_classes_of_their_training_images(config, run, tmp_path):
    def weighted(weights):
        chosen = config(loss__class_weights=weights)
        data = chosen.data.model_copy(update={"train_images": 150})
        return chosen.model_copy(update={"data": data})

    balanced = weighted("balanced")
    known = with_balanced_weights(balanced, build_dataset(balanced)).loss.class_weights
    runs = {
        name: run(weighted(weights), tmp_path / name)[0]
        for name, weights in {"balanced": "balanced", "known": list(known), "none": None}.items()
    }
    np.testing.assert_array_equal(runs["balanced"], runs["known"])
    assert np.abs(runs["balanced"] - runs["none"]).max() > 0
