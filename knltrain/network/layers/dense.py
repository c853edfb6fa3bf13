"""Fully connected layers, and vectors made of maps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from knltrain.network.layers.layer import Layer, check_counts, feature_map, only_shape
from knltrain.network.layers.parameter import (
    PLAIN,
    Multipliers,
    ParameterSpec,
    Shape,
    initial_weights,
    weights_and_bias,
)
from vectorized_ops.shapes import CopyShape, DenseShape

__all__ = ["Dense", "Flatten"]


@dataclass(frozen=True, slots=True)
class Dense(Layer):
    """Fully connected layer; weights (O,I), bias (O,).

    A feature map is flattened in (C,H,W) order, as Caffe and PyTorch do, so that weights can be
    exchanged with either. `initialiser`, `bias_value` and multipliers are those of Convolution.
    """

    name: str
    units: int
    bias: bool = True
    initialiser: str = "xavier"
    bias_value: float = 0.0
    weights_multipliers: Multipliers = PLAIN
    bias_multipliers: Multipliers = PLAIN
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_counts(self.name, units=self.units)
        initial_weights(self.name, self.initialiser, 1)

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(units,)."""
        only_shape(self.name, input_shapes)
        return (self.units,)

    def parameters(self, input_shapes: tuple[Shape, ...]) -> tuple[ParameterSpec, ...]:
        """Weights (units, inputs) and, if there is one, bias (units,)."""
        return weights_and_bias(
            self.name,
            (self.units, math.prod(only_shape(self.name, input_shapes))),
            self.initialiser,
            self.bias_value if self.bias else None,
            (self.weights_multipliers, self.bias_multipliers),
        )

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> DenseShape:
        """Of vectors, or flattened maps."""
        return DenseShape(images, math.prod(only_shape(self.name, input_shapes)), self.units)


@dataclass(frozen=True, slots=True)
class Flatten(Layer):
    """The vector of a feature map, channel by channel in (C,H,W) order, as `Dense` takes it."""

    name: str
    inputs: tuple[str, ...] = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C) -> (C*H*W,)."""
        return (math.prod(feature_map(self.name, input_shapes)),)

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> CopyShape:
        """Of maps (H,W,C)."""
        return CopyShape((images, *feature_map(self.name, input_shapes)))
