"""The layers of a network that have parameters, each measured alone, and steps through all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np

from knltrain.distributed_ops import (
    BatchNormalisation,
    Convolution,
    Dense,
    Options,
    Reducer,
    WeightedLayer,
)
from knltrain.errors import ConfigError
from knltrain.network import layers as specs
from knltrain.network.layers import IMAGES, Layer
from knltrain.network.network import Network
from vectorized_ops.layout import AnyArray


@dataclass(frozen=True, slots=True)
class _Link:
    """A layer, its input arrays in both directions, and whether its inputs need a gradient."""

    layer: Any
    values: AnyArray
    gradient: AnyArray
    needs_data: bool


@final
class Chain:
    """Convolutions, dense layers and batch normalisations of `network`, in its order.

    They are not connected: each computes from an array of its inputs' shape. A step does all
    forward passes, then the gradients from the last layer to the first, and then waits for each
    sum. Gradients of `Convolution` and `Dense` are sent in up to `chunks`.
    """

    def __init__(
        self, network: Network, batch: int, chunks: int, reducer: Reducer, options: Options
    ) -> None:
        if chunks < 1:
            raise ConfigError(f"--chunks {chunks}: expected at least 1")
        self._batch, self._chunks = batch, chunks
        self._reducer, self._options = reducer, options
        self._array = cache(self._new_array)
        found = [self._link(network, layer) for layer in network.layers]
        self._links = [link for link in found if link is not None]

    @property
    def layers(self) -> Sequence[WeightedLayer]:
        """All of them."""
        return [link.layer for link in self._links]

    def step(self) -> None:
        """Compute all directions of all layers; the learning rate is 0."""
        for link in self._links:
            link.layer.forward(link.values)
        handles = []
        for link in reversed(self._links):
            handles.append((link.layer, link.layer.backward_weights(link.values, link.gradient)))
            if link.needs_data:
                link.layer.backward_data(link.gradient)
        for layer, handle in handles:
            handle.wait()
            layer.step(0.0)

    def _link(self, network: Network, layer: Layer) -> _Link | None:
        inputs, outputs = network.input_shapes(layer)[0], network.shape_of(layer.name)
        made: WeightedLayer
        if isinstance(layer, specs.Convolution):
            made = self._convolution(layer, inputs)
        elif isinstance(layer, specs.Dense):
            dense = layer.operation(self._batch, (inputs,))
            inputs = (dense.inputs,)
            made = Dense(
                layer.name, dense.images, dense.inputs, dense.units, self._reducer, self._options,
                bias=layer.bias, chunks=min(self._chunks, dense.units),
            )  # fmt: skip
        elif isinstance(layer, specs.BatchNormalisation):
            shape = layer.operation(self._batch, (inputs,)).inputs
            inputs = outputs = shape[1:]
            made = BatchNormalisation(layer.name, shape, self._reducer, self._options)
        else:
            return None
        needs_data = network.inputs_of(layer) != (IMAGES,)
        return _Link(made, self._array(inputs), self._array(outputs), needs_data)

    def _convolution(self, layer: specs.Convolution, inputs: tuple[int, ...]) -> Convolution:
        shape = layer.operation(self._batch, (inputs,))
        most = layer.groups if layer.groups > 1 else layer.filters
        return Convolution(
            layer.name, shape, self._reducer, self._options,
            bias=layer.bias, chunks=min(self._chunks, most),
        )  # fmt: skip

    def _new_array(self, shape: tuple[int, ...]) -> AnyArray:
        """Make values (N', ...) that are zero beyond the batch; layers of one shape share them."""
        array: AnyArray = self._options.operations.activations((self._batch, *shape))
        array[: self._batch] = np.random.default_rng(0).standard_normal(shape, np.float32)
        return array
