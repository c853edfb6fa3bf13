"""Losses of a network's outputs by PyTorch's own kernels."""

from __future__ import annotations

import torch
from torch.nn import functional

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor


def softmax_cross_entropy(
    logits: AnyArray,
    labels: AnyArray,
    gradient: AnyArray,
    smoothing: float = 0.0,
    weight: float = 1.0,
    class_weights: AnyArray | None = None,
) -> float:
    """See `vectorized_ops.reference.loss.softmax_cross_entropy`."""
    number, classes = len(labels), logits.shape[1]
    logarithms = torch.log_softmax(tensor(logits)[:number], dim=1)
    shares = _targets(labels, classes) * (1 - smoothing) + smoothing / classes
    mass = float(number)
    if class_weights is not None:
        factors = tensor(class_weights)
        shares *= factors
        mass = float(factors[tensor(labels)].double().sum()) if labels.ndim == 1 else mass
    spread = logarithms.exp() * shares.sum(dim=1, keepdim=True) - shares
    _deliver(spread, gradient, number, weight / mass)
    losses = torch.where(shares == 0, 0.0, -shares * logarithms)  # 0 * inf would be NaN
    return float(weight * number / mass) * float(losses.double().sum())


def sigmoid_cross_entropy(
    logits: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """See `vectorized_ops.reference.loss.sigmoid_cross_entropy`."""
    number, classes = len(labels), logits.shape[1]
    targets, given = _targets(labels, classes), tensor(logits)[:number]
    _deliver(given.sigmoid() - targets, gradient, number, weight / (number * classes))
    losses = functional.binary_cross_entropy_with_logits(given, targets, reduction="none")
    return float(weight / classes) * float(losses.double().sum())


def mean_squared_error(
    outputs: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """See `vectorized_ops.reference.loss.mean_squared_error`."""
    number, classes = len(labels), outputs.shape[1]
    distances = tensor(outputs)[:number] - _targets(labels, classes)
    _deliver(distances, gradient, number, 2 * weight / (number * classes))
    return float(weight / classes) * float(distances.double().square().sum())


def _deliver(slopes: torch.Tensor, gradient: AnyArray, number: int, factor: float) -> None:
    """Write the gradient of the images, and zeros behind them."""
    target = tensor(gradient)
    torch.mul(slopes, factor, out=target[:number])
    target[number:] = 0


def _targets(labels: AnyArray, classes: int) -> torch.Tensor:
    if labels.ndim == 2:
        return tensor(labels)
    return functional.one_hot(tensor(labels), classes).float()
