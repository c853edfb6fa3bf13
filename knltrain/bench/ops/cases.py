"""The operations of a network, each shape once, ready to be run by an implementation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from knltrain.network.network import Network
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import (
    AdditionShape,
    AveragePoolingShape,
    BatchNormalisationShape,
    ConvolutionShape,
    DenseShape,
    DropoutShape,
    GlobalAveragePoolingShape,
    LocalResponseShape,
    MaxPoolingShape,
    OperationShape,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """An operation on arrays of its own: for each direction a function that computes it once.

    `choices` has, by direction, the algorithm that a convolution chose, and the candidates.
    """

    runs: Mapping[str, Callable[[], object]]
    choices: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One operation on one shape; `layers` is the number of layers with that shape."""

    operation: OperationShape
    layers: int = 1

    def make(self, operations: Operations) -> Prepared | None:
        """Prepare all directions in one implementation; None if it has no such operation."""
        return _MAKERS[type(self.operation)](self.operation, operations)


def cases(network: Network, batch: int) -> list[Case]:
    """Return the operations of a network that take time worth measuring, in order of appearance."""
    found = Counter(network.operation(layer, batch) for layer in network.layers)
    return [Case(each, count) for each, count in found.items() if type(each) in _MAKERS]


def _convolution(shape: ConvolutionShape, operations: Operations) -> Prepared:
    operation = operations.convolution(shape)
    images, out = _array(operations, shape.inputs), _array(operations, shape.outputs)
    return _weighted(operation, images, out, shape.weights, shape.filters)


def _dense(shape: DenseShape, operations: Operations) -> Prepared:
    operation = operations.dense(shape.images, shape.inputs, shape.units)
    values = _array(operations, (shape.images, shape.inputs))
    out = _array(operations, (shape.images, shape.units))
    return _weighted(operation, values, out, (shape.units, shape.inputs), shape.units)


def _weighted(
    operation: Any, values: AnyArray, out: AnyArray, weights_shape: tuple[int, ...], units: int
) -> Prepared:
    weights, bias = np.full(weights_shape, 0.01, np.float32), np.zeros(units, np.float32)
    gradient = np.zeros_like(weights)
    runs = {
        "forward": partial(operation.forward, values, weights, bias, out),
        "backward_data": partial(operation.backward_data, out, weights, values),
        "backward_weights": partial(operation.backward_weights, values, out, gradient, bias),
    }
    return Prepared(runs, getattr(operation, "choices", {}))


def _batch_normalisation(shape: BatchNormalisationShape, operations: Operations) -> Prepared:
    operation = operations.batch_normalisation(*shape.inputs, shape.epsilon)
    values, out = _array(operations, shape.inputs), _array(operations, shape.inputs)
    channels = shape.inputs[3]
    mean, shift, scale_out, shift_out = (np.zeros(channels, np.float32) for _ in range(4))
    variance, scale = (np.ones(channels, np.float32) for _ in range(2))
    sums = scale_out, shift_out
    backward = values, out, mean, variance, scale, shift, True, *sums, out
    forward = values, mean, variance, scale, shift, out, None, True
    runs = {
        "statistics": partial(operation.statistics, values, mean, variance),
        "forward": partial(operation.forward, *forward),
        "backward_data": partial(operation.backward, *backward),
    }
    return Prepared(runs, {})


def _local_response(shape: LocalResponseShape, operations: Operations) -> Prepared | None:
    if operations.local_response_normalisation is None:
        return None
    settings = shape.size, shape.alpha, shape.beta, shape.bias
    operation = operations.local_response_normalisation(*settings)
    values, out, gradient = (_array(operations, shape.inputs) for _ in range(3))
    runs = {
        "forward": partial(operation.forward, values, out),
        "backward_data": partial(operation.backward, values, out, gradient),
    }
    return Prepared(runs, {})


def _max_pooling(shape: MaxPoolingShape, operations: Operations) -> Prepared:
    operation = operations.max_pooling(shape.windows)
    values, out = _array(operations, shape.inputs), _array(operations, shape.outputs)
    which = operations.activations(shape.outputs, np.uint8)
    runs = {
        "forward": partial(operation.forward, values, out, which),
        "backward_data": partial(operation.backward, out, which, values),
    }
    return Prepared(runs, {})


def _average_pooling(shape: AveragePoolingShape, operations: Operations) -> Prepared:
    operation = operations.average_pooling(shape.windows)
    return _mean(operation, shape.inputs, shape.outputs, operations)


def _global_pooling(shape: GlobalAveragePoolingShape, operations: Operations) -> Prepared:
    outputs = shape.inputs[0], shape.inputs[3]
    return _mean(operations.global_average_pooling(), shape.inputs, outputs, operations)


def _mean(
    operation: Any, inputs: tuple[int, ...], outputs: tuple[int, ...], operations: Operations
) -> Prepared:
    values, out = _array(operations, inputs), _array(operations, outputs)
    runs = {
        "forward": partial(operation.forward, values, out),
        "backward_data": partial(operation.backward, out, values),
    }
    return Prepared(runs, {})


def _addition(shape: AdditionShape, operations: Operations) -> Prepared:
    left, right, out = (_array(operations, shape.inputs) for _ in range(3))
    return Prepared({"forward": partial(operations.add, left, right, out, True)}, {})


def _dropout(shape: DropoutShape, operations: Operations) -> Prepared | None:
    if operations.dropout is None:
        return None
    operation = operations.dropout(shape.rate)
    values, out = (_array(operations, shape.inputs) for _ in range(2))
    runs = {
        "forward": partial(operation.forward, values, out, 1),
        "backward_data": partial(operation.backward, out, values, 1),
    }
    return Prepared(runs, {})


_MAKERS: dict[type[OperationShape], Callable[[Any, Operations], Prepared | None]] = {
    AdditionShape: _addition,
    AveragePoolingShape: _average_pooling,
    BatchNormalisationShape: _batch_normalisation,
    ConvolutionShape: _convolution,
    DenseShape: _dense,
    DropoutShape: _dropout,
    GlobalAveragePoolingShape: _global_pooling,
    LocalResponseShape: _local_response,
    MaxPoolingShape: _max_pooling,
}


def _array(operations: Operations, shape: tuple[int, ...]) -> AnyArray:
    array: AnyArray = operations.activations(shape)
    array[...] = 0.5
    return array
