"""Layers with more than one input."""

from __future__ import annotations

from dataclasses import dataclass

from knltrain.errors import NetworkError
from knltrain.network.layers.layer import Layer
from knltrain.network.layers.parameter import Shape
from vectorized_ops.shapes import AdditionShape, ChannelProductShape, ConcatenationShape

__all__ = ["Addition", "ChannelProduct", "Concatenation"]


@dataclass(frozen=True, slots=True)
class Concatenation(Layer):
    """The channels of all inputs, or units of vectors, behind each other as in `inputs`."""

    name: str
    inputs: tuple[str, ...] = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C1), (H,W,C2), ... -> (H,W,C1+C2+...), and (C1,), (C2,), ... -> (C1+C2+...,)."""
        pixels = input_shapes[0][:-1]
        if len(input_shapes) < 2 or any(shape[:-1] != pixels for shape in input_shapes):
            raise NetworkError(
                f"layer '{self.name}' has inputs of shapes {input_shapes}: expected two or more "
                "feature maps (H, W, C) of the same height and width, or two or more vectors"
            )
        return (*pixels, sum(shape[-1] for shape in input_shapes))

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ConcatenationShape:
        """To maps of all channels, or vectors of all units."""
        return ConcatenationShape((images, *self.output_shape(input_shapes)))


@dataclass(frozen=True, slots=True)
class Addition(Layer):
    """The sum of two inputs, value by value."""

    name: str
    inputs: tuple[str, ...] = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """That of either input."""
        if len(input_shapes) != 2 or input_shapes[0] != input_shapes[1]:
            raise NetworkError(
                f"layer '{self.name}' has inputs of shapes {input_shapes}: expected two of the "
                "same shape"
            )
        return input_shapes[0]

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> AdditionShape:
        """Of two inputs."""
        return AdditionShape((images, *self.output_shape(input_shapes)))


@dataclass(frozen=True, slots=True)
class ChannelProduct(Layer):
    """Each channel of the first input, maps, times the image's factor for it, the second input.

    The end of a squeeze-and-excitation block (Hu et al., CVPR 2018, equation 4).
    """

    name: str
    inputs: tuple[str, ...] = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C), (C,) -> (H,W,C)."""
        maps = input_shapes[0]
        if len(input_shapes) != 2 or len(maps) != 3 or input_shapes[1] != maps[2:]:
            raise NetworkError(
                f"layer '{self.name}' has inputs of shapes {input_shapes}: expected feature maps "
                "(H, W, C) and a vector (C,) with a factor for each channel"
            )
        return maps

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> ChannelProductShape:
        """Of maps (H,W,C)."""
        height, width, channels = self.output_shape(input_shapes)
        return ChannelProductShape((images, height, width, channels))
