"""Layers with weights: convolutions, fully connected layers; and vectors made of maps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from knltrain.errors import NetworkError
from knltrain.network.layers.layer import (
    Extent,
    Layer,
    Window,
    check_counts,
    feature_map,
    only_shape,
    pair,
    shortest,
)
from knltrain.network.layers.parameter import (
    PLAIN,
    Multipliers,
    ParameterSpec,
    Shape,
    initial_weights,
    weights_and_bias,
)
from vectorized_ops.shapes import ConvolutionShape, CopyShape, DenseShape

__all__ = ["Convolution", "Dense", "Flatten"]


@dataclass(frozen=True, slots=True)
class Convolution(Layer):
    """Cross-correlation; weights (K,C/groups,R,S), bias (K,).

    `kernel`, `stride`, `padding` and `dilation` are one number for both directions or a pair
    (lines, pixels); `window` has them as pairs. Output channels are divided into `groups`, each of
    which sees its own share of the input channels. The bias starts as `bias_value` everywhere;
    `initialiser` is one of those of `initial_weights`.
    """

    name: str
    filters: int
    kernel: Extent
    stride: Extent = 1
    padding: Extent = 0
    dilation: Extent = 1
    groups: int = 1
    bias: bool = True
    initialiser: str = "xavier"
    bias_value: float = 0.0
    weights_multipliers: Multipliers = PLAIN
    bias_multipliers: Multipliers = PLAIN
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("kernel", "stride", "padding", "dilation"):
            object.__setattr__(self, key, shortest(getattr(self, key)))
        check_counts(self.name, filters=self.filters, groups=self.groups)
        assert self.window  # refuses numbers out of range
        initial_weights(self.name, self.initialiser, 1)

    @property
    def window(self) -> Window:
        """Kernel, stride, padding and dilation as pairs."""
        return Window(
            self.name,
            pair(self.kernel),
            pair(self.stride),
            pair(self.padding),
            pair(self.dilation),
        )

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C) -> (lines, pixels, filters), where lines and pixels are `Window.positions`."""
        height, width, channels = feature_map(self.name, input_shapes)
        if channels % self.groups or self.filters % self.groups:
            raise NetworkError(
                f"layer '{self.name}': groups = {self.groups}, expected a divisor of its "
                f"{channels} input channels and its {self.filters} filters"
            )
        return (*self.window.positions(height, width), self.filters)

    def parameters(self, input_shapes: tuple[Shape, ...]) -> tuple[ParameterSpec, ...]:
        """Weights (filters, C/groups, R, S) and, if there is one, bias (filters,)."""
        channels = feature_map(self.name, input_shapes)[2] // self.groups
        return weights_and_bias(
            self.name,
            (self.filters, channels, *self.window.kernel),
            self.initialiser,
            self.bias_value if self.bias else None,
            (self.weights_multipliers, self.bias_multipliers),
        )

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ConvolutionShape:
        """Of maps (H,W,C)."""
        height, width, channels = feature_map(self.name, input_shapes)
        window = self.window
        return ConvolutionShape(
            images=images,
            height=height,
            width=width,
            channels=channels,
            filters=self.filters,
            kernel=window.kernel,
            stride=window.stride,
            padding=window.padding,
            dilation=window.dilation,
            groups=self.groups,
        )


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
