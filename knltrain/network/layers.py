"""The layers a network is made of, as plain descriptions: shapes, parameters, operations.

A shape is that of one image: (H, W, C) for a feature map, (units,) behind a dense layer. `flops`
counts a multiply-add as two operations; comparisons and bias additions are not counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from knltrain.errors import NetworkError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """One parameter array: its name ("conv1.weights"), shape, and place in the packed vector.

    `offset` counts float32 values from the start of the vector.
    """

    name: str
    shape: Shape
    offset: int = 0

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def fan_in(self) -> int:
        """Number of inputs that one output is computed from (weights only)."""
        return math.prod(self.shape[1:])

    @property
    def is_bias(self) -> bool:
        """Whether this is a bias, that is, one value per output."""
        return len(self.shape) == 1


class Layer(ABC):
    """One step of a network; `input_shape` is always that of a single image."""

    __slots__ = ()

    name: str

    @abstractmethod
    def output_shape(self, input_shape: Shape) -> Shape:
        """Shape of the output; NetworkError when the layer cannot take `input_shape`."""

    @abstractmethod
    def parameters(self, input_shape: Shape) -> tuple[ParameterSpec, ...]:
        """The layer's parameters, weights before bias, not yet placed in a packed vector."""

    @abstractmethod
    def flops(self, input_shape: Shape) -> int:
        """Operations of the forward pass of one image."""


@dataclass(frozen=True, slots=True)
class Convolution(Layer):
    """Cross-correlation with square kernels; weights (K,C,R,S), bias (K,)."""

    name: str
    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0

    def __post_init__(self) -> None:
        _check_counts(self.name, filters=self.filters, kernel=self.kernel, stride=self.stride)
        if self.padding < 0:
            raise NetworkError(f"layer '{self.name}': padding = {self.padding}, expected >= 0")

    def output_shape(self, input_shape: Shape) -> Shape:
        """(H,W,C) -> ((H + 2 padding - kernel) // stride + 1, the same for W, filters)."""
        height, width, _ = _feature_map(self.name, input_shape)
        return (
            _positions(self.name, height, self.kernel, self.stride, self.padding),
            _positions(self.name, width, self.kernel, self.stride, self.padding),
            self.filters,
        )

    def parameters(self, input_shape: Shape) -> tuple[ParameterSpec, ...]:
        """Weights (filters, C, kernel, kernel) and bias (filters,)."""
        channels = _feature_map(self.name, input_shape)[2]
        return (
            ParameterSpec(
                f"{self.name}.weights", (self.filters, channels, self.kernel, self.kernel)
            ),
            ParameterSpec(f"{self.name}.bias", (self.filters,)),
        )

    def flops(self, input_shape: Shape) -> int:
        """2 P Q K C R S for an output of P x Q x K."""
        return 2 * math.prod(self.output_shape(input_shape)) * input_shape[2] * self.kernel**2


@dataclass(frozen=True, slots=True)
class MaxPooling(Layer):
    """Largest value of each square window; windows that leave the image are left out."""

    name: str
    kernel: int
    stride: int

    def __post_init__(self) -> None:
        _check_counts(self.name, kernel=self.kernel, stride=self.stride)

    def output_shape(self, input_shape: Shape) -> Shape:
        """(H,W,C) -> ((H - kernel) // stride + 1, the same for W, C)."""
        height, width, channels = _feature_map(self.name, input_shape)
        return (
            _positions(self.name, height, self.kernel, self.stride, 0),
            _positions(self.name, width, self.kernel, self.stride, 0),
            channels,
        )

    def parameters(self, input_shape: Shape) -> tuple[ParameterSpec, ...]:  # noqa: ARG002
        """None."""
        return ()

    def flops(self, input_shape: Shape) -> int:  # noqa: ARG002
        """0: pooling only compares."""
        return 0


@dataclass(frozen=True, slots=True)
class Dense(Layer):
    """Fully connected layer; weights (O,I), bias (O,).

    A feature map is flattened in (C,H,W) order, as Caffe and PyTorch do, so that weights can be
    exchanged with either.
    """

    name: str
    units: int

    def __post_init__(self) -> None:
        _check_counts(self.name, units=self.units)

    def output_shape(self, input_shape: Shape) -> Shape:  # noqa: ARG002
        """(units,)."""
        return (self.units,)

    def parameters(self, input_shape: Shape) -> tuple[ParameterSpec, ...]:
        """Weights (units, inputs) and bias (units,)."""
        return (
            ParameterSpec(f"{self.name}.weights", (self.units, math.prod(input_shape))),
            ParameterSpec(f"{self.name}.bias", (self.units,)),
        )

    def flops(self, input_shape: Shape) -> int:
        """2 O I."""
        return 2 * self.units * math.prod(input_shape)


@dataclass(frozen=True, slots=True)
class ReLU(Layer):
    """max(x, 0), value by value."""

    name: str

    def output_shape(self, input_shape: Shape) -> Shape:
        """That of the input."""
        return input_shape

    def parameters(self, input_shape: Shape) -> tuple[ParameterSpec, ...]:  # noqa: ARG002
        """None."""
        return ()

    def flops(self, input_shape: Shape) -> int:  # noqa: ARG002
        """0: only comparisons."""
        return 0


def _check_counts(name: str, **counts: int) -> None:
    for key, count in counts.items():
        if count < 1:
            raise NetworkError(f"layer '{name}': {key} = {count}, expected at least 1")


def _feature_map(name: str, shape: Shape) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise NetworkError(
            f"layer '{name}' needs a feature map (H, W, C), but its input is {shape}: "
            "put it before the first dense layer"
        )
    return shape[0], shape[1], shape[2]


def _positions(name: str, extent: int, kernel: int, stride: int, padding: int) -> int:
    if kernel > extent + 2 * padding:
        raise NetworkError(
            f"layer '{name}': a window of {kernel} does not fit into {extent} pixels with "
            f"padding {padding}: use a smaller kernel or a larger image"
        )
    return (extent + 2 * padding - kernel) // stride + 1
