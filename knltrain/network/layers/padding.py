"""Padding of feature maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from knltrain.errors import NetworkError
from knltrain.network.layers.layer import Layer, feature_map
from knltrain.network.layers.parameter import Shape
from vectorized_ops.shapes import PaddingShape

__all__ = ["Padding"]

LARGEST: Final = (2 - 2**-23) * 2.0**127
"""The largest float32."""


@dataclass(frozen=True, slots=True)
class Padding(Layer):
    """Zeros around the maps: lines above and below them, pixels left and right of them.

    For what a convolution's or pooling's own padding, the same on both sides, does not say. With
    `lowest` they are the lowest of float32 numbers instead of 0, for a max pooling.
    """

    name: str
    above: int = 0
    below: int = 0
    left: int = 0
    right: int = 0
    lowest: bool = False
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.sides) < 0:
            raise NetworkError(
                f"layer '{self.name}': above, below, left, right = {self.sides}, expected 0 or more"
            )

    @property
    def value(self) -> float:
        """What is around the maps."""
        return -LARGEST if self.lowest else 0.0

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """Lines above and below, pixels left and right."""
        return self.above, self.below, self.left, self.right

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C) -> (above + H + below, left + W + right, C)."""
        height, width, channels = feature_map(self.name, input_shapes)
        return height + self.above + self.below, width + self.left + self.right, channels

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> PaddingShape:
        """Of maps (H,W,C)."""
        return PaddingShape((images, *feature_map(self.name, input_shapes)), self.sides)
