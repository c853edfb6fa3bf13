"""Losses of a network's outputs: those of Numba's kernels, between transposing copies."""

from __future__ import annotations

from functools import lru_cache
from threading import get_ident

from vectorized_ops.channels_last.turning import turn_in, turn_out
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba import loss as kernels
from vectorized_ops.numba.arrays import activations


def softmax_cross_entropy(
    logits: AnyArray,
    labels: AnyArray,
    gradient: AnyArray,
    smoothing: float = 0.0,
    weight: float = 1.0,
    class_weights: AnyArray | None = None,
) -> float:
    """See `vectorized_ops.reference.loss.softmax_cross_entropy`."""
    given, slopes = _turned(logits)
    loss = kernels.softmax_cross_entropy(given, labels, slopes, smoothing, weight, class_weights)
    turn_out(slopes, gradient)
    return loss


def sigmoid_cross_entropy(
    logits: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """See `vectorized_ops.reference.loss.sigmoid_cross_entropy`."""
    given, slopes = _turned(logits)
    loss = kernels.sigmoid_cross_entropy(given, labels, slopes, weight)
    turn_out(slopes, gradient)
    return loss


def mean_squared_error(
    outputs: AnyArray, labels: AnyArray, gradient: AnyArray, weight: float = 1.0
) -> float:
    """See `vectorized_ops.reference.loss.mean_squared_error`."""
    given, slopes = _turned(outputs)
    loss = kernels.mean_squared_error(given, labels, slopes, weight)
    turn_out(slopes, gradient)
    return loss


def _turned(outputs: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return outputs (N, classes) and memory for their gradient, images running fastest."""
    given, slopes = _memory(outputs.shape, get_ident())
    turn_in(outputs, given)
    return given, slopes


@lru_cache(maxsize=8)
def _memory(shape: tuple[int, ...], _thread: int) -> tuple[AnyArray, AnyArray]:
    """Return two arrays for each thread, since each call needs them."""
    return activations(shape), activations(shape)
