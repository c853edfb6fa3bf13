from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.nn import functional

from vectorized_ops.reference.loss import (
    mean_squared_error,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
)


def test_hand_computed_loss_is_a_sum_and_its_gradient_that_of_the_mean() -> None:
    logits = np.log(np.array([[1, 2, 5], [3, 4, 1]], np.float32))
    gradient = np.full_like(logits, 99)
    loss = softmax_cross_entropy(logits, np.array([2, 0]), gradient)
    assert loss == pytest.approx(-math.log(5 / 8) - math.log(3 / 8))
    expected = np.array([[1 / 8, 2 / 8, -3 / 8], [-5 / 8, 4 / 8, 1 / 8]]) / 2
    assert_allclose(gradient, expected, atol=1e-7)


def test_gradient_equals_finite_differences(differences: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((3, 4)), np.array([1, 3, 3])
    gradient, unused = np.empty_like(logits), np.empty_like(logits)
    softmax_cross_entropy(logits, labels, gradient)
    mean = differences(lambda: softmax_cross_entropy(logits, labels, unused) / 3, logits)
    # One term is rounded to float32: 1 / 3.
    assert_allclose(gradient, mean, rtol=0, atol=1e-6)


def test_padding_beyond_the_labels_has_no_loss_and_no_gradient() -> None:
    logits = np.zeros((5, 2), np.float32)
    logits[2:] = np.nan
    gradient = np.full_like(logits, 99)
    loss = softmax_cross_entropy(logits, np.array([0, 1]), gradient)
    assert loss == pytest.approx(2 * math.log(2))
    assert_array_equal(gradient, [[-0.25, 0.25], [0.25, -0.25], [0, 0], [0, 0], [0, 0]])


def test_logits_far_from_zero_neither_overflow_nor_vanish() -> None:
    logits = np.array([[10_000, 9_999], [-10_000, -9_999]], np.float32)
    loss = softmax_cross_entropy(logits, np.array([0, 0]), np.empty_like(logits))
    assert loss == pytest.approx(2 * math.log(1 + math.exp(-1)) + 1, rel=1e-6)


def test_what_is_not_finite_is_carried_on_without_a_warning(
    infinities_in_loss_contract: Callable[..., None],
) -> None:
    infinities_in_loss_contract("reference")


def test_smoothing_and_weight_are_those_of_pytorch(gradients_agree: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((4, 5)), np.array([1, 0, 4, 1])
    gradient, unused = np.empty_like(logits), np.empty_like(logits)

    def forward() -> np.ndarray:
        return np.array(softmax_cross_entropy(logits, labels, unused, smoothing=0.2, weight=0.3))

    expected = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits), torch.from_numpy(labels), reduction="sum", label_smoothing=0.2
    )
    assert forward() == pytest.approx(0.3 * float(expected))
    softmax_cross_entropy(logits, labels, gradient, smoothing=0.2, weight=0.3)
    gradients_agree(forward, np.array(0.25), [(logits, gradient)], step=1e-5)


CLASSES = np.array([1, 0, 4, 1])
TARGETS = np.random.default_rng(3).uniform(size=(4, 5)).astype(np.float32)
WEIGHTS = np.array([0.5, 2, 1, 3, 0.25], np.float32)


def of_pytorch(
    function: Callable[..., torch.Tensor], logits: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray]:
    """The mean loss and its gradient."""
    given = torch.from_numpy(logits).requires_grad_()
    loss = function(given, torch.from_numpy(labels))
    loss.backward()  # type: ignore[no-untyped-call]
    assert given.grad is not None
    return loss.item(), given.grad.numpy()


def check(ours: Callable[..., float], theirs: Callable[..., torch.Tensor], labels: Any) -> None:
    logits = 3 * np.random.default_rng(0).standard_normal((4, 5))
    gradient = np.empty_like(logits)
    loss = ours(logits, labels, gradient, weight=0.3)
    expected, slopes = of_pytorch(theirs, logits, labels)
    assert loss / 4 == pytest.approx(0.3 * expected, rel=1e-6)
    assert_allclose(gradient, 0.3 * slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", [CLASSES, TARGETS], ids=["classes", "shares"])
def test_weights_and_shares_of_classes_are_those_of_pytorch(
    labels: np.ndarray, weighted: bool, smoothing: float
) -> None:
    def theirs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        weights = torch.from_numpy(WEIGHTS).double() if weighted else None
        labels = labels.double() if labels.ndim == 2 else labels
        return functional.cross_entropy(logits, labels, weights, label_smoothing=smoothing)

    weights = WEIGHTS if weighted else None
    ours = partial(softmax_cross_entropy, smoothing=smoothing, class_weights=weights)
    check(ours, theirs, labels)


@pytest.mark.parametrize("labels", [CLASSES, TARGETS], ids=["classes", "targets"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (sigmoid_cross_entropy, functional.binary_cross_entropy_with_logits),
        (mean_squared_error, functional.mse_loss),
    ],
)
def test_losses_of_each_output_are_those_of_pytorch(
    ours: Callable[..., float], theirs: Callable[..., torch.Tensor], labels: np.ndarray
) -> None:
    def on_targets(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return theirs(
            logits, (labels if labels.ndim == 2 else functional.one_hot(labels, 5)).double()
        )

    check(ours, on_targets, labels)


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_sigmoids_neither_overflow_nor_vanish(size: float) -> None:
    logits = np.array([[size, -size]], np.float32)
    gradient = np.empty_like(logits)
    loss = sigmoid_cross_entropy(logits, np.array([[0, 1]], np.float32), gradient)
    assert loss == pytest.approx(math.log1p(math.exp(-size)) + size, rel=1e-6)
    assert np.isfinite(gradient).all()
