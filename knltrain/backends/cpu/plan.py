"""A network compiled once for a batch: which operation runs when, and on which memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from knltrain.backends.cpu.stages import (
    Activation,
    FlattenStage,
    MaxPoolingStage,
    PooledConvolutionStage,
    ReLUStage,
    Stage,
    WeightedStage,
)
from knltrain.errors import NetworkError
from knltrain.network.layers import Convolution, Dense, Layer, MaxPooling, ReLU, Shape
from knltrain.network.network import Network
from vectorized_ops.implementations import Operations


class Plan:
    """Stages in order; `images` is what the first one reads, `output` what the last one writes."""

    def __init__(self, network: Network, batch: int, operations: Operations) -> None:
        images = operations.activations((batch, *network.input_shape))
        self.input = Activation(images, None)
        self.stages: list[Stage] = []
        remaining = deque(zip(network.layers, network.shapes[1:], strict=True))
        while remaining:
            self._append(remaining, operations, len(images))
        if self.output.gradient is None or len(network.shapes[-1]) != 1:
            raise NetworkError(
                f"network '{network.name}' ends in {network.shapes[-1]}: expected a dense layer "
                "whose outputs are the classes"
            )

    @property
    def output(self) -> Activation:
        """The activation behind the last stage so far."""
        return self.stages[-1].output if self.stages else self.input

    def _append(
        self, remaining: deque[tuple[Layer, Shape]], operations: Operations, batch: int
    ) -> None:
        layer, shape = remaining.popleft()
        inputs = self.output
        if operations.pooled_convolution and _fuses([layer, *(item[0] for item in remaining)]):
            _, shape = remaining.popleft()
            output = Activation.allocate(operations, batch, shape)
            self.stages.append(PooledConvolutionStage(layer, operations, inputs, output))  # type: ignore[arg-type]
            return
        if isinstance(layer, ReLU):
            self.stages.append(ReLUStage(layer, operations, inputs))
            return
        if isinstance(layer, Dense) and inputs.values.ndim == 4:
            inputs = self._flattened(layer.name, operations, inputs)
        output = Activation.allocate(operations, batch, shape)
        if isinstance(layer, Convolution):
            operation = operations.convolution(
                inputs.values.shape, layer.filters, layer.kernel, layer.stride, layer.padding
            )
            self.stages.append(WeightedStage(layer.name, operation, inputs, output))
        elif isinstance(layer, MaxPooling):
            self.stages.append(MaxPoolingStage(layer, operations, inputs, output))
        elif isinstance(layer, Dense):
            operation = operations.dense(*inputs.values.shape, layer.units)
            self.stages.append(WeightedStage(layer.name, operation, inputs, output))
        else:
            raise NetworkError(
                f"layer '{layer.name}' is a {type(layer).__name__}, which the cpu backend does not "
                'compute: choose backend.name = "torch"'
            )

    def _flattened(self, name: str, operations: Operations, images: Activation) -> Activation:
        vectors = operations.flatten(images.values)
        if np.shares_memory(vectors, images.values):
            gradient = None if images.gradient is None else operations.flatten(images.gradient)
            return Activation(vectors, gradient)
        stage = FlattenStage(name, operations, images)
        self.stages.append(stage)
        return stage.output


def _fuses(layers: Sequence[Layer]) -> bool:
    """Tell whether the first two layers are a plain convolution and 2x2 max pooling."""
    if len(layers) < 2:
        return False
    first, second = layers[:2]
    return (
        isinstance(first, Convolution)
        and (first.stride, first.padding) == (1, 0)
        and isinstance(second, MaxPooling)
        and (second.kernel, second.stride) == (2, 2)
    )
