"""The operations of a network, each shape once, ready to be run by an implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from knltrain.network import layers
from knltrain.network.layers import Layer, Shape
from knltrain.network.network import Network
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import ConvolutionShape, PoolingShape

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Prepared:
    """An operation on arrays of its own: by direction what computes it once.

    `choices` tells, by direction, which algorithm a convolution chose and from what.
    """

    runs: Mapping[str, Callable[[], object]]
    choices: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One operation on one shape, and what a direction costs.

    `flops` is 0 for operations that only move memory. `streams` are the floats that each direction
    must read and write, `make` prepares the directions in one implementation (None: it has none).
    `layers` tells how many layers of the network are such.
    """

    operation: str
    shape: str
    flops: int
    streams: dict[str, int]
    make: Callable[[Operations], Prepared | None]
    layers: int = 1


def cases(network: Network, batch: int) -> list[Case]:
    """Return the operations of a network that take more than a moment, in order of appearance."""
    found: dict[tuple[str, str], Case] = {}
    for layer in network.layers:
        for case in _cases_of(layer, network.input_shapes(layer), batch):
            key = case.operation, case.shape
            count = found[key].layers + 1 if key in found else 1
            found[key] = Case(
                case.operation, case.shape, case.flops, case.streams, case.make, count
            )
    return list(found.values())


def _cases_of(layer: Layer, shapes: tuple[Shape, ...], batch: int) -> Iterator[Case]:
    inputs = shapes[0]
    if isinstance(layer, layers.Convolution):
        yield _convolution(layer, inputs, batch)
    elif isinstance(layer, layers.Dense):
        yield _dense(layer, int(np.prod(inputs)), batch)
    elif isinstance(layer, layers.BatchNormalisation):
        yield _batch_normalisation(inputs, batch, layer.epsilon)
    elif isinstance(layer, layers.LocalResponseNormalisation):
        yield _local_response(layer, inputs, batch)
    elif isinstance(layer, (layers.MaxPooling, layers.AveragePooling)):
        yield _pooling(layer, inputs, batch)
    elif isinstance(layer, layers.GlobalAveragePooling):
        yield _global_pooling(inputs, batch)
    elif isinstance(layer, layers.Addition):
        yield _addition(inputs, batch)
    elif isinstance(layer, layers.Dropout):
        yield _dropout(layer, inputs, batch)


def _convolution(layer: layers.Convolution, inputs: Shape, batch: int) -> Case:
    window = layer.window
    height, width, channels = inputs
    shape = ConvolutionShape(
        images=batch,
        height=height,
        width=width,
        channels=channels,
        filters=layer.filters,
        kernel=window.kernel,
        stride=window.stride,
        padding=window.padding,
        dilation=window.dilation,
        groups=layer.groups,
    )

    def make(operations: Operations) -> Prepared:
        operation = operations.convolution(shape)
        images, out = _array(operations, shape.inputs), _array(operations, shape.outputs)
        return _weighted(operation, images, out, shape.weights, shape.filters)

    moved = int(np.prod(shape.inputs)) + int(np.prod(shape.outputs)) + int(np.prod(shape.weights))
    text = (
        f"{_by(inputs)} -> {layer.filters}, {_by(window.kernel)}"
        f"{f', stride {window.stride[0]}' if window.stride != (1, 1) else ''}"
        f"{f', {layer.groups} groups' if layer.groups > 1 else ''}"
    )
    return Case("convolution", text, shape.flops, dict.fromkeys(_DIRECTIONS, moved), make)


_DIRECTIONS = ("forward", "backward_data", "backward_weights")


def _dense(layer: layers.Dense, inputs: int, batch: int) -> Case:
    def make(operations: Operations) -> Prepared:
        operation = operations.dense(batch, inputs, layer.units)
        values = _array(operations, (batch, inputs))
        out = _array(operations, (batch, layer.units))
        return _weighted(operation, values, out, (layer.units, inputs), layer.units)

    moved = inputs * layer.units + batch * (inputs + layer.units)
    flops = 2 * batch * inputs * layer.units
    return Case(
        "dense", f"{inputs} -> {layer.units}", flops, dict.fromkeys(_DIRECTIONS, moved), make
    )


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


def _batch_normalisation(inputs: Shape, batch: int, epsilon: float) -> Case:
    shape, size = (batch, *inputs), batch * int(np.prod(inputs))

    def make(operations: Operations) -> Prepared:
        operation = operations.batch_normalisation(batch, *inputs, epsilon)
        values, out = _array(operations, shape), _array(operations, shape)
        mean, shift, scale_out, shift_out = (np.zeros(inputs[2], np.float32) for _ in range(4))
        variance, scale = (np.ones(inputs[2], np.float32) for _ in range(2))
        sums = scale_out, shift_out
        backward = values, out, mean, variance, scale, shift, True, *sums, out
        runs = {
            "statistics": partial(operation.statistics, values, mean, variance),
            "forward": partial(
                operation.forward, values, mean, variance, scale, shift, out, None, True
            ),
            "backward_data": partial(operation.backward, *backward),
        }
        return Prepared(runs, {})

    streams = {"statistics": size, "forward": 2 * size, "backward_data": 5 * size}
    return Case("batch normalisation", _by(inputs), 0, streams, make)


def _local_response(layer: layers.LocalResponseNormalisation, inputs: Shape, batch: int) -> Case:
    shape, size = (batch, *inputs), batch * int(np.prod(inputs))

    def make(operations: Operations) -> Prepared | None:
        if operations.local_response_normalisation is None:
            return None
        operation = operations.local_response_normalisation(
            layer.size, layer.alpha, layer.beta, layer.bias
        )
        values, out, gradient = (_array(operations, shape) for _ in range(3))
        runs = {
            "forward": partial(operation.forward, values, out),
            "backward_data": partial(operation.backward, values, out, gradient),
        }
        return Prepared(runs, {})

    streams = {"forward": 2 * size, "backward_data": 3 * size}
    return Case("local response", _by(inputs), 0, streams, make)


def _pooling(layer: layers.MaxPooling | layers.AveragePooling, inputs: Shape, batch: int) -> Case:
    window, largest = layer.window, isinstance(layer, layers.MaxPooling)
    shape = PoolingShape(
        inputs[0], inputs[1], window.kernel, window.stride, window.padding, layer.ceil
    )
    outputs = shape.lines, shape.pixels, inputs[2]

    def make(operations: Operations) -> Prepared:
        values, out = _array(operations, (batch, *inputs)), _array(operations, (batch, *outputs))
        if not largest:
            operation = operations.average_pooling(shape)
            runs = {
                "forward": partial(operation.forward, values, out),
                "backward_data": partial(operation.backward, out, values),
            }
            return Prepared(runs, {})
        operation = operations.max_pooling(shape)
        which = operations.activations((batch, *outputs), np.uint8)
        runs = {
            "forward": partial(operation.forward, values, out, which),
            "backward_data": partial(operation.backward, out, which, values),
        }
        return Prepared(runs, {})

    places = int(np.prod(outputs)) // FLOAT_BYTES if largest else 0  # a byte each
    moved = batch * (int(np.prod(inputs)) + int(np.prod(outputs)) + places)
    name = "max pooling" if largest else "average pooling"
    text = f"{_by(inputs)}, {_by(window.kernel)}, stride {window.stride[0]}"
    return Case(name, text, 0, {"forward": moved, "backward_data": moved}, make)


def _global_pooling(inputs: Shape, batch: int) -> Case:
    def make(operations: Operations) -> Prepared:
        operation = operations.global_average_pooling()
        values, out = _array(operations, (batch, *inputs)), _array(operations, (batch, inputs[2]))
        runs = {
            "forward": partial(operation.forward, values, out),
            "backward_data": partial(operation.backward, out, values),
        }
        return Prepared(runs, {})

    moved = batch * (int(np.prod(inputs)) + inputs[2])
    streams = {"forward": moved, "backward_data": moved}
    return Case("global average", _by(inputs), 0, streams, make)


def _addition(inputs: Shape, batch: int) -> Case:
    """Its gradient is that of either input, and moves nothing."""

    def make(operations: Operations) -> Prepared:
        left, right, out = (_array(operations, (batch, *inputs)) for _ in range(3))
        return Prepared({"forward": partial(operations.add, left, right, out, True)}, {})

    return Case("addition", _by(inputs), 0, {"forward": 3 * batch * int(np.prod(inputs))}, make)


def _dropout(layer: layers.Dropout, inputs: Shape, batch: int) -> Case:
    def make(operations: Operations) -> Prepared | None:
        if operations.dropout is None:
            return None
        operation = operations.dropout(layer.rate)
        values, out = (_array(operations, (batch, *inputs)) for _ in range(2))
        runs = {
            "forward": partial(operation.forward, values, out, 1),
            "backward_data": partial(operation.backward, out, values, 1),
        }
        return Prepared(runs, {})

    moved = 2 * batch * int(np.prod(inputs))
    streams = {"forward": moved, "backward_data": moved}
    return Case("dropout", _by(inputs), 0, streams, make)


def _array(operations: Operations, shape: tuple[int, ...]) -> AnyArray:
    array: AnyArray = operations.activations(shape)
    array[...] = 0.5
    return array


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
