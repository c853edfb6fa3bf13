"""Layers that choose, reorder or scale whole channels."""

from __future__ import annotations

from dataclasses import dataclass

from knltrain.errors import NetworkError
from knltrain.network.layers.layer import Layer, check_counts, feature_map, only_shape
from knltrain.network.layers.parameter import PLAIN, Initial, Multipliers, ParameterSpec, Shape
from vectorized_ops.shapes import ChannelScaleShape, ChannelSelectionShape

__all__ = ["ChannelScale", "ChannelShuffle", "ChannelSlice"]


@dataclass(frozen=True, slots=True)
class ChannelSlice(Layer):
    """Channels `first` to `last` of maps, or such units of a vector; `last` is not included."""

    name: str
    first: int
    last: int
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last:
            raise NetworkError(
                f"layer '{self.name}': first = {self.first} and last = {self.last}, expected "
                "0 <= first < last"
            )

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C) -> (H,W,last - first), (C,) -> (last - first,)."""
        shape = only_shape(self.name, input_shapes)
        if self.last > shape[-1]:
            raise NetworkError(
                f"layer '{self.name}': last = {self.last}, expected at most its {shape[-1]} input "
                "channels"
            )
        return (*shape[:-1], self.last - self.first)

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ChannelSelectionShape:
        """Of maps (H,W,C) or vectors (C,)."""
        shape = only_shape(self.name, input_shapes)
        return ChannelSelectionShape((images, *shape), self.first, self.last)


@dataclass(frozen=True, slots=True)
class ChannelShuffle(Layer):
    """The first channel of each of `groups` groups of neighbours, then the second of each, ...

    Zhang et al., CVPR 2018, figure 1; ShuffleChannel of its Caffe version.
    """

    name: str
    groups: int
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_counts(self.name, groups=self.groups)

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of the input, a feature map."""
        shape = feature_map(self.name, input_shapes)
        if shape[2] % self.groups:
            raise NetworkError(
                f"layer '{self.name}': groups = {self.groups}, expected a divisor of its "
                f"{shape[2]} input channels"
            )
        return shape

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ChannelSelectionShape:
        """Of maps (H,W,C)."""
        shape = self.output_shape(input_shapes)
        return ChannelSelectionShape((images, *shape), 0, shape[-1], self.groups)


@dataclass(frozen=True, slots=True)
class ChannelScale(Layer):
    """Each channel times a trained factor, which starts as `initial_scale`; scale (C,).

    LayerScale (Touvron et al., ICCV 2021).
    """

    name: str
    initial_scale: float = 1.0
    scale_multipliers: Multipliers = PLAIN
    inputs: tuple[str, ...] = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of the input."""
        return only_shape(self.name, input_shapes)

    def parameters(self, input_shapes: tuple[Shape, ...]) -> tuple[ParameterSpec, ...]:
        """Scale (C,)."""
        scale = ParameterSpec(
            f"{self.name}.scale",
            only_shape(self.name, input_shapes)[-1:],
            "scale",
            initial=Initial("constant", self.initial_scale),
            learning_rate_multiplier=self.scale_multipliers.learning_rate,
            decay_multiplier=self.scale_multipliers.decay,
        )
        return (scale,)

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ChannelScaleShape:
        """Of maps (H,W,C) or vectors (C,)."""
        return ChannelScaleShape((images, *only_shape(self.name, input_shapes)))
