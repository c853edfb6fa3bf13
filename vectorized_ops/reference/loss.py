"""Softmax cross-entropy, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


def softmax_cross_entropy(
    logits: AnyArray,
    labels: AnyArray,
    gradient: AnyArray,
    smoothing: float = 0.0,
    weight: float = 1.0,
) -> float:
    """Return the sum over images of their loss; write its mean's gradient.

    An image's loss is weight * (-(1 - smoothing) * log p[label] - smoothing * mean over classes of
    log p), p = softmax(logits), as with PyTorch's `label_smoothing` (Szegedy et al. 2016, section
    7). logits and gradient (N', classes) float32, labels (n,) int64 with n <= N' and values below
    `classes`; the images beyond n are padding, their gradient is zero.
    """
    number, classes = len(labels), logits.shape[1]
    with np.errstate(invalid="ignore"):  # inf - inf: the caller looks at the loss
        shifted = logits[:number] - logits[:number].max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    totals = powers.sum(axis=1, keepdims=True)
    surprises = np.log(totals) - shifted
    rows = np.arange(number)
    share = smoothing / classes
    gradient[:number] = (powers / totals - share) * (weight / number)
    gradient[rows, labels] -= gradient.dtype.type((1 - smoothing) * weight / number)
    gradient[number:] = 0
    loss = (1 - smoothing) * surprises[rows, labels].sum(dtype=np.float64)
    if smoothing:  # 0 * inf would be NaN
        loss += share * surprises.sum(dtype=np.float64)
    return float(weight * loss)
