"""Layers that are connected to a network, by a script of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import numpy as np
import numpy.typing as npt

from knltrain.distributed_ops.dropout import Dropout
from knltrain.distributed_ops.gradient import GradientHandle
from knltrain.distributed_ops.layer import Layer
from knltrain.distributed_ops.loss import SoftmaxCrossEntropy
from knltrain.distributed_ops.normalisation import BatchNormalisation
from knltrain.distributed_ops.shaping import Images
from knltrain.distributed_ops.weighted import WeightedLayer
from knltrain.errors import NetworkError
from knltrain.vectors import FloatArray
from vectorized_ops.layout import AnyArray

AnyLayer = TypeVar("AnyLayer", bound=Layer)


@dataclass(slots=True, eq=False)
class _Node:
    """A layer, and what reads its output."""

    layer: Any  # each kind's `forward` takes arguments of its own
    sources: tuple[_Node, ...]
    number: int
    """Of a dropout: it keeps the decisions of a network's dropout layers apart."""
    is_trained: bool
    """Whether its output depends on parameters, so that the gradient of it is needed."""
    values: Any = None
    gradient: Any = None
    readers: list[_Node] = field(default_factory=list)
    total: AnyArray | None = None
    """Where the gradients of several readers are added up."""


@final
class Graph:
    """A computational graph of layers behind `images`, which are added in the order of computing.

    A layer's sums begin as soon as its gradient is there, and are waited for in `step`:

        loss = graph.loss(images_nhwc, labels, key=step)
        graph.backward()
        graph.step(learning_rate)

    Raises NetworkError for layers that do not fit, and for calls in another order.
    """

    def __init__(self, images: Images) -> None:
        self._images = _Node(images, (), 0, is_trained=False)
        self._nodes: dict[str, _Node] = {images.name: self._images}
        self._losses: list[_Node] = []
        self._handles: list[tuple[WeightedLayer, GradientHandle]] = []
        self._has_loss = False

    def add(self, layer: AnyLayer, *sources: Layer) -> AnyLayer:
        """Connect a layer to those whose outputs it takes, in the order of its inputs."""
        if layer.name in self._nodes:
            raise NetworkError(
                f"two layers of a graph are called '{layer.name}': expected other names"
            )
        taken = tuple(self._node_of(layer, source) for source in sources)
        given = tuple(source.outputs for source in sources)
        if given != layer.inputs or not sources:
            raise NetworkError(
                f"layer '{layer.name}' takes {_listed(layer.inputs)}, and was connected to "
                f"{_listed(given)}: expected equal shapes"
            )
        dropouts = sum(isinstance(node.layer, Dropout) for node in self._nodes.values())
        is_trained = isinstance(layer, WeightedLayer) or any(node.is_trained for node in taken)
        node = self._nodes[layer.name] = _Node(layer, taken, dropouts, is_trained)
        for source in taken:
            source.readers.append(node)
            if len(source.readers) == 2 and source.is_trained:
                make = source.layer.options.operations.activations
                source.total = make(source.layer.outputs)
        if isinstance(layer, SoftmaxCrossEntropy):
            self._losses.append(node)
        return layer

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, in the order in which they were added."""
        return tuple(node.layer for node in self._nodes.values())

    @property
    def parameters(self) -> Mapping[str, FloatArray]:
        """All parameters by "layer.parameter", as in knltrain's files; writable."""
        weighted = (layer for layer in self.layers if isinstance(layer, WeightedLayer))
        return {
            f"{layer.name}.{name}": values
            for layer in weighted
            for name, values in layer.parameters.items()
        }

    def loss(self, images_nhwc: AnyArray, labels: npt.NDArray[np.int64], key: int) -> float:
        """Return the sum of all losses, times their weights, in training.

        images_nhwc (n, H, W, C) float32, labels (n,) int64. Dropout follows from the lowest 56 bits
        of the `key`, as in knltrain's own steps: each step and rank needs its own.
        """
        self._check_has_loss()
        if len(images_nhwc) != len(labels):
            raise NetworkError(
                f"{len(images_nhwc)} images with {len(labels)} labels: expected one for each"
            )
        self._has_loss, total = False, 0.0
        for node in self._nodes.values():
            if node in self._losses:
                total += node.layer.forward(node.sources[0].values, labels)
            else:
                self._compute(node, images_nhwc, key)
        self._has_loss = True
        return total

    def logits(self, images_nhwc: AnyArray) -> AnyArray:
        """Return a copy of what the last loss takes (n, classes), in evaluation.

        Other losses do not count.
        """
        self._check_has_loss()
        (wanted,) = self._losses[-1].sources
        needed = _before(wanted)
        for node in self._nodes.values():
            if id(node) in needed:
                self._compute(node, images_nhwc, None)
        self._has_loss = False
        logits: AnyArray = wanted.values[: len(images_nhwc)].copy()
        return logits

    def backward(self) -> None:
        """Compute all gradients from the last layer to the first; begin their sums."""
        if not self._has_loss:
            raise NetworkError("a graph computes gradients of its last loss: call loss() before")
        if self._handles:
            raise NetworkError("the last gradients are still there: call step() before backward()")
        self._has_loss = False
        for node in self._nodes.values():
            node.gradient = None
        for node in reversed(self._nodes.values()):
            if node in self._losses:
                self._deliver(node, (node.layer.backward_data(),))
            elif node.gradient is not None:
                self._differentiate(node)

    def step(self, learning_rate: float) -> None:
        """Wait for the sum of each gradient, in the order of their beginning, and move by it."""
        if not self._handles:
            raise NetworkError("a graph steps by gradients: call backward() before each step")
        handles, self._handles = self._handles, []
        for layer, handle in handles:
            handle.wait()
            layer.step(learning_rate)

    def _check_has_loss(self) -> None:
        if not self._losses:
            raise NetworkError("a graph has no loss: add a SoftmaxCrossEntropy")

    def _compute(self, node: _Node, images_nhwc: AnyArray, key: int | None) -> None:
        layer, given = node.layer, [source.values for source in node.sources]
        if node is self._images:
            node.values = layer.load(images_nhwc)
        elif isinstance(layer, BatchNormalisation):
            node.values = layer.forward(given[0], key is not None)
        elif isinstance(layer, Dropout):
            own = None if key is None else (key * 2**8 + node.number) % 2**64
            node.values = layer.forward(given[0], own)
        else:
            node.values = layer.forward(*given)

    def _differentiate(self, node: _Node) -> None:
        layer, gradient = node.layer, node.gradient
        if isinstance(layer, WeightedLayer):
            values = node.sources[0].values
            self._handles.append((layer, layer.backward_weights(values, gradient)))
        if any(source.is_trained for source in node.sources):
            found = layer.backward_data(gradient)
            self._deliver(node, found if isinstance(found, tuple) else (found,))

    def _deliver(self, node: _Node, gradients: tuple[AnyArray, ...]) -> None:
        for source, gradient in zip(node.sources, gradients, strict=True):
            if not source.is_trained:
                continue
            if source.gradient is None:
                source.gradient = gradient
            else:
                add = source.layer.options.operations.add
                add(source.gradient, gradient, source.total)
                source.gradient = source.total

    def _node_of(self, layer: Layer, source: Layer) -> _Node:
        node = self._nodes.get(source.name)
        if node is None or node.layer is not source:
            raise NetworkError(
                f"layer '{layer.name}' was connected to '{source.name}', which is not in the graph:"
                " add it before"
            )
        return node


def _before(node: _Node) -> set[int]:
    """The node and all that it depends on, by their ids."""
    found, waiting = set[int](), [node]
    while waiting:
        each = waiting.pop()
        if id(each) not in found:
            found.add(id(each))
            waiting += each.sources
    return found


def _listed(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join(map(str, shapes)) or "nothing"
