"""PyTorch's own losses in place of those of `knltrain.backends.loss`."""

from __future__ import annotations

import torch
from torch.nn import functional

from knltrain.backends.loss import (
    Loss,
    MeanSquaredError,
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
)

__all__ = ["mean_loss", "sum_of_losses"]


def mean_loss(loss: Loss, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of a batch with outputs (n, classes); labels are classes (n,) or targets."""
    if isinstance(loss, SoftmaxCrossEntropy):
        weights = None if loss.weights is None else torch.from_numpy(loss.weights).to(outputs)
        return functional.cross_entropy(
            outputs, labels, weights, label_smoothing=loss.label_smoothing
        )
    targets = _targets(outputs, labels)
    if isinstance(loss, SigmoidCrossEntropy):
        return functional.binary_cross_entropy_with_logits(outputs, targets)
    assert isinstance(loss, MeanSquaredError)
    return functional.mse_loss(outputs, targets)


def sum_of_losses(loss: Loss, outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """The plain losses of all images, added up."""
    if isinstance(loss.plain, SoftmaxCrossEntropy):
        return functional.cross_entropy(outputs, labels, reduction="sum").item()
    return mean_loss(loss.plain, outputs, labels).item() * len(labels)


def _targets(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if labels.ndim == 1:
        labels = functional.one_hot(labels, outputs.shape[1])
    return labels.to(outputs.dtype)
