"""Elementwise layers: activation functions and dropout."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass

from knltrain.errors import NetworkError, unknown_name
from knltrain.network.layers.layer import Layer, only_shape
from knltrain.network.layers.parameter import (
    PLAIN,
    Initial,
    Multipliers,
    ParameterSpec,
    Shape,
)
from vectorized_ops.shapes import (
    ACTIVATION_FUNCTIONS,
    ActivationShape,
    AffineShape,
    DropoutShape,
    ParametricRectifierShape,
    RectifierShape,
)

__all__ = ["Activation", "Affine", "Dropout", "PReLU", "ReLU", "StochasticDepth"]


class _Elementwise(Layer, ABC):
    """The base of layers that compute each value by itself."""

    __slots__ = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of the input."""
        return only_shape(self.name, input_shapes)


@dataclass(frozen=True, slots=True)
class ReLU(_Elementwise):
    """max(x, slope x), cut off at `ceiling`; by default max(x, 0).

    `slope` 0.01 makes it leaky, `ceiling` 6 makes it ReLU6. The derivative is `slope` at 0 and 0 at
    the ceiling, so that it follows from the output alone.
    """

    name: str
    slope: float = 0.0
    ceiling: float = math.inf
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.slope < 1 or not self.ceiling > 0:
            raise NetworkError(
                f"layer '{self.name}': slope = {self.slope} and ceiling = {self.ceiling}, "
                "expected 0 <= slope < 1 and ceiling > 0"
            )

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> RectifierShape:
        """Of any values."""
        return RectifierShape((images, *only_shape(self.name, input_shapes)))


@dataclass(frozen=True, slots=True)
class PReLU(_Elementwise):
    """x where it is not below 0, slope x elsewhere; the slope is learned.

    He et al., ICCV 2015. There is a slope for each channel, or one for all (`shared`); they start
    as `initial_slope`.
    """

    name: str
    shared: bool = False
    initial_slope: float = 0.25
    multipliers: Multipliers = PLAIN
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not math.isfinite(self.initial_slope):
            raise NetworkError(
                f"layer '{self.name}': initial_slope = {self.initial_slope}, expected a finite "
                "number"
            )

    def parameters(self, input_shapes: tuple[Shape, ...]) -> tuple[ParameterSpec, ...]:
        """Slopes (C,), or (1,) if they are shared."""
        channels = only_shape(self.name, input_shapes)[-1]
        return (
            ParameterSpec(
                f"{self.name}.slopes",
                (1 if self.shared else channels,),
                "slopes",
                initial=Initial("constant", self.initial_slope),
                learning_rate_multiplier=self.multipliers.learning_rate,
                decay_multiplier=self.multipliers.decay,
            ),
        )

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ParametricRectifierShape:
        """Of any values."""
        return ParametricRectifierShape((images, *only_shape(self.name, input_shapes)))


@dataclass(frozen=True, slots=True)
class Activation(_Elementwise):
    """A smooth `function` of each value, one of ACTIVATION_FUNCTIONS.

    `vectorized_ops.reference.activation.Activation` defines them.
    """

    name: str
    function: str
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.function not in ACTIVATION_FUNCTIONS:
            told = unknown_name("function", self.function, ACTIVATION_FUNCTIONS)
            raise NetworkError(f"layer '{self.name}': {told}")

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ActivationShape:
        """Of any values."""
        return ActivationShape((images, *only_shape(self.name, input_shapes)), self.function)


@dataclass(frozen=True, slots=True)
class Affine(_Elementwise):
    """factor * x + offset of each value; both are fixed."""

    name: str
    factor: float = 1.0
    offset: float = 0.0
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and math.isfinite(self.offset)):
            raise NetworkError(
                f"layer '{self.name}': factor = {self.factor} and offset = {self.offset}, expected "
                "finite numbers"
            )

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> AffineShape:
        """Of any values."""
        return AffineShape((images, *only_shape(self.name, input_shapes)))


def _check_rate(name: str, rate: float, dropped: str) -> None:
    if not 0 <= rate < 1:
        raise NetworkError(
            f"layer '{name}': rate = {rate}, expected 0 <= rate < 1, the share of {dropped} that "
            "are dropped"
        )


@dataclass(frozen=True, slots=True)
class Dropout(_Elementwise):
    """In training sets each value to zero with probability `rate`, the others to x / (1 - rate).

    Srivastava et al., JMLR 2014, in the form that does not change values in evaluation.
    """

    name: str
    rate: float = 0.5
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_rate(self.name, self.rate, "values")

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> DropoutShape:
        """Of any values."""
        return DropoutShape((images, *only_shape(self.name, input_shapes)), self.rate)


@dataclass(frozen=True, slots=True)
class StochasticDepth(_Elementwise):
    """`Dropout` of whole images: a branch of a residual block is left out for a share of them.

    Huang et al., ECCV 2016.
    """

    name: str
    rate: float
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_rate(self.name, self.rate, "images")

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> DropoutShape:
        """Of any values."""
        return DropoutShape((images, *only_shape(self.name, input_shapes)), self.rate, True)
