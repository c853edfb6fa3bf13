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

__all__ = ["class_weights", "mean_loss", "sum_of_losses"]


def class_weights(loss: Loss, device: torch.device) -> torch.Tensor | None:
    """The weights of the classes (classes,) on a device, if the loss has some."""
    if not isinstance(loss, SoftmaxCrossEntropy) or loss.weights is None:
        return None
    return torch.from_numpy(loss.weights).to(device)


def mean_loss(
    loss: Loss,
    outputs: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor | None,
) -> torch.Tensor:
    """The loss of a batch with outputs (n, classes); labels are classes (n,) or targets.

    `weights` are its `class_weights`.
    """
    if isinstance(loss, SoftmaxCrossEntropy):
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
    return mean_loss(loss.plain, outputs, labels, None).item() * len(labels)


def _targets(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if labels.ndim == 1:
        classes = torch.arange(outputs.shape[1], dtype=labels.dtype, device=labels.device)
        labels = labels[:, None] == classes
    return labels.to(outputs.dtype)
