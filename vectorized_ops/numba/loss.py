"""Losses of a network's outputs."""

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
_NO_CLASSES, _NO_TARGETS = np.empty(0, np.int64), np.empty(0, np.float32)


def softmax_cross_entropy(
    logits: AnyArray,
    labels: AnyArray,
    gradient: AnyArray,
    smoothing: float = 0.0,
    weight: float = 1.0,
    class_weights: AnyArray | None = None,
) -> float:
    """See `vectorized_ops.reference.loss.softmax_cross_entropy`."""
    row, classes = logits.shape
    values, slopes = pixels(logits)[0], pixels(gradient)[0]
    if class_weights is None and labels.ndim == 1:
        loss = _softmax_cross_entropy(values, labels, slopes, row, classes, smoothing, weight)
        return float(loss)
    factors = _NO_TARGETS if class_weights is None else class_weights
    given = values, *_told(labels), factors, slopes, row, classes, len(labels), smoothing, weight
    return float(_weighted_cross_entropy(*given))


def sigmoid_cross_entropy(
    logits: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """See `vectorized_ops.reference.loss.sigmoid_cross_entropy`."""
    row, classes = logits.shape
    values, slopes = pixels(logits)[0], pixels(gradient)[0]
    return float(
        _sigmoid_cross_entropy(values, *_told(labels), slopes, row, classes, len(labels), weight)
    )


def mean_squared_error(
    outputs: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """See `vectorized_ops.reference.loss.mean_squared_error`."""
    row, classes = outputs.shape
    values, slopes = pixels(outputs)[0], pixels(gradient)[0]
    return float(
        _mean_squared_error(values, *_told(labels), slopes, row, classes, len(labels), weight)
    )


def _told(labels: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Labels as classes, or as targets one image after another; the others are empty."""
    return (labels, _NO_TARGETS) if labels.ndim == 1 else (_NO_CLASSES, labels.reshape(-1))


@kernel
def _target(labels: Any, targets: Any, image: int, number: int, classes: int) -> float:
    if len(labels) > 0:
        return 1.0 if labels[image] == number else 0.0
    return float(targets[image * classes + number])


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


@kernel
def _share(
    labels: Any, targets: Any, factors: Any, image: int, number: int, classes: int, smoothing: float
) -> float:
    """Return w ((1 - smoothing) t + smoothing / classes)."""
    target = _target(labels, targets, image, number, classes)
    share = (1.0 - smoothing) * target + smoothing / classes
    return share * float(factors[number]) if len(factors) > 0 else share


@kernel
def _weighted_cross_entropy(
    logits: Any,
    labels: Any,
    targets: Any,
    factors: Any,
    gradient: Any,
    row: int,
    classes: int,
    number: int,
    smoothing: float,
    weight: float,
) -> float:
    mass = float(number)
    if len(labels) > 0 and len(factors) > 0:
        mass = 0.0
        for image in range(number):
            mass += float(factors[labels[image]])
    factor, state, loss = weight / mass, stack_vector(_STATE, np.float32), 0.0
    for first in range(0, row, LANES):
        count = min(max(number - first, 0), LANES)
        softmax_tile(
            gradient, logits, first, row, classes, np.float32(0.0), np.float32(1.0), count, state
        )
        for lane in range(count):
            image, whole = first + lane, 0.0
            surprise = math.log(state[LANES + lane]) + float(state[lane])
            for k in range(classes):
                share = _share(labels, targets, factors, image, k, classes, smoothing)
                whole += share
                if share != 0.0:  # 0 * inf would be NaN
                    loss += share * (surprise - float(logits[k * row + image]))
            for k in range(classes):
                share = _share(labels, targets, factors, image, k, classes, smoothing)
                place = k * row + image
                gradient[place] = np.float32((float(gradient[place]) * whole - share) * factor)
    return number * factor * loss


@kernel
def _sigmoid_cross_entropy(
    logits: Any,
    labels: Any,
    targets: Any,
    gradient: Any,
    row: int,
    classes: int,
    number: int,
    weight: float,
) -> float:
    factor, loss = weight / (float(number) * classes), 0.0
    for k in range(classes):
        for image in range(row):
            if image >= number:
                gradient[k * row + image] = np.float32(0.0)
                continue
            logit = float(logits[k * row + image])
            target = _target(labels, targets, image, k, classes)
            power = math.exp(-abs(logit))
            sigmoid = (power if logit < 0.0 else 1.0) / (1.0 + power)
            gradient[k * row + image] = np.float32((sigmoid - target) * factor)
            above = 0.0 if logit < 0.0 else logit  # NaN stays NaN
            loss += above - logit * target + math.log1p(power)
    return weight / classes * loss


@kernel
def _mean_squared_error(
    outputs: Any,
    labels: Any,
    targets: Any,
    gradient: Any,
    row: int,
    classes: int,
    number: int,
    weight: float,
) -> float:
    factor, loss = 2.0 * weight / (float(number) * classes), 0.0
    for k in range(classes):
        for image in range(row):
            if image >= number:
                gradient[k * row + image] = np.float32(0.0)
                continue
            target = _target(labels, targets, image, k, classes)
            distance = float(outputs[k * row + image]) - target
            gradient[k * row + image] = np.float32(distance * factor)
            loss += distance * distance
    return weight / classes * loss
