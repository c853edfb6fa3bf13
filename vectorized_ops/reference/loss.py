"""Losses of a network's outputs, defined.

Each takes outputs (N', classes) float32 and the labels of the first n <= N' images, and writes the
gradient, float32 of the outputs' shape; the images beyond n are padding, their gradient is zero.
Labels are classes, int64 (n,), or targets, float32 (n, classes). Of a class the target is 1 at its
place and 0 elsewhere. `weight` is a factor of loss and gradient.
"""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


def softmax_cross_entropy(
    logits: AnyArray,
    labels: AnyArray,
    gradient: AnyArray,
    smoothing: float = 0.0,
    weight: float = 1.0,
    class_weights: AnyArray | None = None,
) -> float:
    """Return n times the mean loss of the images; write the mean's gradient.

    An image's loss is weight * sum over classes of -T log p, p = softmax(logits), T = w ((1 -
    smoothing) t + smoothing / classes), as with PyTorch's `label_smoothing` (Szegedy et al. 2016,
    section 7) and `weight`: w are the `class_weights`, float32 (classes,) above 0, or 1. The mean
    over images with classes is that by the weights of their classes, others count alike.
    """
    number, classes = len(labels), logits.shape[1]
    with np.errstate(invalid="ignore"):  # inf - inf: the caller looks at the loss
        shifted = logits[:number] - logits[:number].max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    totals = powers.sum(axis=1, keepdims=True)
    surprises = np.log(totals) - shifted
    factors = np.ones(classes) if class_weights is None else class_weights.astype(np.float64)
    shares = factors * ((1 - smoothing) * _targets(labels, classes) + smoothing / classes)
    mass = float(factors[labels].sum()) if labels.ndim == 1 else number
    spread = powers / totals * shares.sum(axis=1, keepdims=True) - shares
    gradient[:number] = spread * (weight / mass)
    gradient[number:] = 0
    with np.errstate(invalid="ignore"):
        losses = np.where(shares == 0, 0, shares * surprises)  # 0 * inf would be NaN
    return float(number / mass * weight * losses.sum(dtype=np.float64))


def sigmoid_cross_entropy(
    logits: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """Return the sum over images of their loss; write its mean's gradient.

    An image's loss is weight * mean over classes of -t log s - (1 - t) log (1 - s), s = 1 / (1 +
    e^-logit), as PyTorch's `binary_cross_entropy_with_logits`: each class may be there or not.
    """
    number, classes = len(labels), logits.shape[1]
    targets, given = _targets(labels, classes), logits[:number]
    powers = np.exp(-np.abs(given))
    sigmoids = np.where(given < 0, powers, 1) / (1 + powers)
    gradient[:number] = (sigmoids - targets) * (weight / (number * classes))
    gradient[number:] = 0
    with np.errstate(invalid="ignore"):
        losses = np.maximum(given, 0) - given * targets + np.log1p(powers)
    return float(weight / classes * losses.sum(dtype=np.float64))


def mean_squared_error(
    outputs: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """Return the sum over images of their loss; write its mean's gradient.

    An image's loss is weight * mean over classes of (output - t)^2, as PyTorch's `mse_loss`.
    """
    number, classes = len(labels), outputs.shape[1]
    distances = outputs[:number] - _targets(labels, classes)
    gradient[:number] = distances * (2 * weight / (number * classes))
    gradient[number:] = 0
    return float(weight / classes * np.square(distances).sum(dtype=np.float64))


def _targets(labels: AnyArray, classes: int) -> AnyArray:
    if labels.ndim == 2:
        return labels.astype(np.float64)
    targets: AnyArray = np.arange(classes) == labels[:, None]
    return targets.astype(np.float64)
