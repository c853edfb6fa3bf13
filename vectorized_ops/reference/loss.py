"""Softmax cross-entropy, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray


def softmax_cross_entropy(logits: AnyArray, labels: AnyArray, gradient: AnyArray) -> float:
    """Return the sum over images of -log softmax(logits)[label]; write its mean's gradient.

    logits and gradient (N', classes) float32, labels (n,) int64 with n <= N' and values below
    `classes`; the images beyond n are padding, their gradient is zero.
    """
    number = len(labels)
    with np.errstate(invalid="ignore"):  # inf - inf: the caller looks at the loss
        shifted = logits[:number] - logits[:number].max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    totals = powers.sum(axis=1, keepdims=True)
    rows = np.arange(number)
    gradient[:number] = powers / totals / number
    gradient[rows, labels] -= np.float32(1 / number)
    gradient[number:] = 0
    return float((np.log(totals[:, 0]) - shifted[rows, labels]).sum(dtype=np.float64))
