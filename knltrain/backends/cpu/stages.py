"""The steps of a plan: an operation bound to its arrays, forward and backward.

Arrays are made when the plan is made; the steps only compute. `values` are activations, `gradient`
their gradients; `inputs.gradient` is None for the images, whose gradient nobody needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from knltrain.network import layers
from knltrain.network.layers import Shape
from vectorized_ops.implementations import Operations
from vectorized_ops.layout import AnyArray

Views = Mapping[str, AnyArray]
"""Parameters or their gradients by name."""


@dataclass(frozen=True, slots=True)
class Activation:
    """What flows between two stages: values and, unless nobody needs it, their gradient."""

    values: AnyArray
    gradient: AnyArray | None

    @classmethod
    def allocate(cls, operations: Operations, batch: int, shape: Shape) -> Activation:
        """Memory for a batch of `shape`."""
        shape = (batch, *shape)
        return cls(operations.activations(shape), operations.activations(shape))


class Stage(ABC):
    """One step of the plan, named after its layer; `output` is where its results lie."""

    name: str
    output: Activation

    @abstractmethod
    def forward(self, parameters: Views) -> None:
        """Compute `output.values`."""

    @abstractmethod
    def backward(self, parameters: Views, gradients: Views) -> None:
        """From `output.gradient` compute the input's gradient and those of the parameters."""


class WeightedStage(Stage):
    """A convolution or a dense layer: `operation` with the weights and bias of layer `name`."""

    def __init__(self, name: str, operation: Any, inputs: Activation, output: Activation) -> None:
        self.name, self.operation, self.output, self._inputs = name, operation, output, inputs
        self._weights, self._bias = f"{name}.weights", f"{name}.bias"

    def forward(self, parameters: Views) -> None:
        """Multiply or correlate with the weights."""
        self.operation.forward(
            self._inputs.values,
            parameters[self._weights],
            parameters[self._bias],
            self.output.values,
        )

    def backward(self, parameters: Views, gradients: Views) -> None:
        """Backward-weights and, where needed, backward-data."""
        gradient = self.output.gradient
        self.operation.backward_weights(
            self._inputs.values, gradient, gradients[self._weights], gradients[self._bias]
        )
        if self._inputs.gradient is not None:
            self.operation.backward_data(gradient, parameters[self._weights], self._inputs.gradient)


class PooledConvolutionStage(Stage):
    """A convolution and the 2x2 max pooling behind it, fused."""

    def __init__(
        self,
        layer: layers.Convolution,
        operations: Operations,
        inputs: Activation,
        output: Activation,
    ) -> None:
        if operations.pooled_convolution is None:
            raise TypeError(f"the {operations.name} implementation does not fuse pooling")
        self.name, self.output, self._inputs = layer.name, output, inputs
        self._weights, self._bias = f"{layer.name}.weights", f"{layer.name}.bias"
        self._which = operations.activations(output.values.shape, np.uint8)
        self._operation = operations.pooled_convolution(
            inputs.values.shape, layer.filters, layer.kernel
        )

    def forward(self, parameters: Views) -> None:
        """Correlate and pool."""
        self._operation.forward(
            self._inputs.values,
            parameters[self._weights],
            parameters[self._bias],
            self.output.values,
            self._which,
        )

    def backward(self, parameters: Views, gradients: Views) -> None:
        """Backward-weights and, where needed, backward-data."""
        self._operation.backward(
            self._inputs.values,
            self.output.gradient,
            self._which,
            parameters[self._weights],
            gradients[self._weights],
            gradients[self._bias],
            self._inputs.gradient,
        )


class MaxPoolingStage(Stage):
    """Max pooling."""

    def __init__(
        self,
        layer: layers.MaxPooling,
        operations: Operations,
        inputs: Activation,
        output: Activation,
    ) -> None:
        self.name, self.output, self._inputs = layer.name, output, inputs
        self._which = operations.activations(output.values.shape, np.uint8)
        self._operation = operations.max_pooling(layer.kernel, layer.stride)

    def forward(self, parameters: Views) -> None:  # noqa: ARG002
        """Keep the maxima."""
        self._operation.forward(self._inputs.values, self.output.values, self._which)

    def backward(self, parameters: Views, gradients: Views) -> None:  # noqa: ARG002
        """Spread the gradient over the pixels that were largest."""
        if self._inputs.gradient is not None:
            self._operation.backward(self.output.gradient, self._which, self._inputs.gradient)


class FlattenStage(Stage):
    """Images into vectors, for implementations whose memory order does not already agree."""

    def __init__(self, name: str, operations: Operations, inputs: Activation) -> None:
        self.name, self._operations, self._inputs = name, operations, inputs
        vectors = operations.flatten(inputs.values)
        self.output = Activation.allocate(operations, len(vectors), vectors.shape[1:])

    def forward(self, parameters: Views) -> None:  # noqa: ARG002
        """Copy the values."""
        np.copyto(self.output.values, self._operations.flatten(self._inputs.values))

    def backward(self, parameters: Views, gradients: Views) -> None:  # noqa: ARG002
        """Copy the gradient back."""
        if self._inputs.gradient is not None:
            self._operations.unflatten(self.output.gradient, self._inputs.gradient)


class ReLUStage(Stage):
    """A rectifier, in place: values and gradients overwrite those of its input."""

    def __init__(self, layer: layers.ReLU, operations: Operations, inputs: Activation) -> None:
        self.name, self.output, self._operations = layer.name, inputs, operations

    def forward(self, parameters: Views) -> None:  # noqa: ARG002
        """Cut off what is negative."""
        self._operations.relu_forward(self.output.values, self.output.values)

    def backward(self, parameters: Views, gradients: Views) -> None:  # noqa: ARG002
        """Cut off the gradient where the value was not positive."""
        gradient = self.output.gradient
        if gradient is not None:
            self._operations.relu_backward(gradient, self.output.values, gradient)
