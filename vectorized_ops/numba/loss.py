"""Softmax cross-entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vectorized_ops.layout import AnyArray, pixels
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.raw_arrays import stack_vector
from vectorized_ops.numba.kernels.elementwise.softmax_tiles import softmax_tile

_STATE = 3 * LANES


def softmax_cross_entropy(
    logits: AnyArray,
    labels: AnyArray,
    gradient: AnyArray,
    smoothing: float = 0.0,
    weight: float = 1.0,
) -> float:
    """See `vectorized_ops.reference.loss.softmax_cross_entropy`."""
    row, classes = logits.shape
    loss = _softmax_cross_entropy(
        pixels(logits)[0], labels, pixels(gradient)[0], row, classes, smoothing, weight
    )
    return float(loss)


@kernel
def _softmax_cross_entropy(
    logits: Any,
    labels: Any,
    gradient: Any,
    row: int,
    classes: int,
    smoothing: float,
    weight: float,
) -> float:
    number = len(labels)
    share, factor = np.float32(smoothing / classes), np.float32(weight / number)
    on_label = np.float32((1.0 - smoothing) * weight / number)
    state = stack_vector(_STATE, np.float32)
    loss = 0.0
    for first in range(0, row, LANES):
        count = min(max(number - first, 0), LANES)
        softmax_tile(gradient, logits, first, row, classes, share, factor, count, state)
        for lane in range(count):
            place, image = labels[first + lane] * row, first + lane
            gradient[place + image] -= on_label
            surprise, total = math.log(state[LANES + lane]), float(state[lane])
            loss += (1.0 - smoothing) * (surprise + total - float(logits[place + image]))
            if smoothing > 0.0:  # 0 * inf would be NaN
                loss += smoothing * (surprise - float(state[2 * LANES + lane]) / classes)
    return weight * loss
