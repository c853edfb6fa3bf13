"""Softmax cross-entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vectorized_ops.layout import AnyArray, images_last
from vectorized_ops.numba.compiler import kernel


def softmax_cross_entropy(logits: AnyArray, labels: AnyArray, gradient: AnyArray) -> float:
    """See `vectorized_ops.reference.loss.softmax_cross_entropy`."""
    return float(_softmax_cross_entropy(images_last(logits), labels, images_last(gradient)))


@kernel
def _softmax_cross_entropy(logits: Any, labels: Any, gradient: Any) -> float:
    classes, number = logits.shape[0], labels.shape[0]
    scale = np.float32(1.0) / np.float32(number)
    loss = 0.0
    for image in range(number):
        largest = logits[0, image]
        for row in range(1, classes):
            largest = max(largest, logits[row, image])
        total = np.float32(0.0)
        for row in range(classes):
            power = np.float32(math.exp(logits[row, image] - largest))
            gradient[row, image] = power
            total += power
        for row in range(classes):
            gradient[row, image] *= scale / total
        label = labels[image]
        gradient[label, image] -= scale
        loss += math.log(total) + float(largest) - float(logits[label, image])
    gradient[:, number:] = np.float32(0.0)
    return loss
