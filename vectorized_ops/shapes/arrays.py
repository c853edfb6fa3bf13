"""Arrays for the calls of operations; apart, so that shapes are known without NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes.operation import Calls

__all__ = ["channel_values", "operand", "places", "weighted_calls"]


def operand(operations: Operations, shape: tuple[int, ...]) -> AnyArray:
    """An array in the layout of an implementation, of values that overflow nothing."""
    from vectorized_ops.bfloat16 import copy_values

    array: AnyArray = operations.activations(shape, operations.kept)
    copy_values(np.full_like(array, 0.5, np.float32), array)
    return array


def weighted_calls(
    operation: Any, values: AnyArray, out: AnyArray, weights_shape: tuple[int, ...], units: int
) -> Calls:
    """All directions of an operation with weights and `units` biases."""
    weights, bias = np.full(weights_shape, 0.01, np.float32), np.zeros(units, np.float32)
    gradient = np.zeros_like(weights)
    runs = {
        "forward": partial(operation.forward, values, weights, bias, out),
        "backward_data": partial(operation.backward_data, out, weights, values),
        "backward_weights": partial(operation.backward_weights, values, out, gradient, bias),
    }
    return Calls(runs, getattr(operation, "choices", {}))


def channel_values(value: float, channels: int, count: int) -> list[AnyArray]:
    """So many vectors of equal values, one for each channel."""
    return [np.full(channels, value, np.float32) for _ in range(count)]


def places(operations: Operations, shape: tuple[int, ...]) -> AnyArray:
    """An array for the places of the largest values."""
    array: AnyArray = operations.activations(shape, np.uint8)
    return array
