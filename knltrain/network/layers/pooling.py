"""Poolings: the largest value or the mean of every window, or the mean of whole maps."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, replace

from knltrain.errors import NetworkError
from knltrain.network.layers.layer import Extent, Layer, Window, feature_map, pair, shortest
from knltrain.network.layers.parameter import Shape
from vectorized_ops.shapes import (
    AdaptivePoolingShape,
    AveragePoolingShape,
    GlobalAveragePoolingShape,
    MaxPoolingShape,
    PoolingShape,
)

__all__ = [
    "AdaptiveAveragePooling",
    "AveragePooling",
    "GlobalAveragePooling",
    "MaxPooling",
    "Pooling",
]


class Pooling(Layer, ABC):
    """The base of poolings over a window; `window` has its numbers as pairs.

    Windows that leave the padded image are left out, or with `ceil` cut off at its edge, as in
    Caffe. `padding` is at most half the kernel, so that every window overlaps the image.
    """

    __slots__ = ()

    kernel: Extent
    stride: Extent
    padding: Extent
    ceil: bool

    def __post_init__(self) -> None:
        for key in ("kernel", "stride", "padding"):
            object.__setattr__(self, key, shortest(getattr(self, key)))
        window = self.window
        if any(window.padding[axis] > window.kernel[axis] // 2 for axis in (0, 1)):
            raise NetworkError(
                f"layer '{self.name}': padding = {self.padding}, expected at most half of "
                f"kernel = {self.kernel}"
            )

    @property
    def window(self) -> Window:
        """Kernel, stride and padding as pairs."""
        return Window(self.name, pair(self.kernel), pair(self.stride), pair(self.padding))

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C) -> (lines, pixels, C), where lines and pixels are `Window.positions`."""
        height, width, channels = feature_map(self.name, input_shapes)
        return (*self.window.positions(height, width, self.ceil), channels)

    def windows(self, input_shapes: tuple[Shape, ...]) -> PoolingShape:
        """The windows' places on maps (H,W,C)."""
        height, width, _ = feature_map(self.name, input_shapes)
        window = self.window
        return PoolingShape(height, width, window.kernel, window.stride, window.padding, self.ceil)


@dataclass(frozen=True, slots=True)
class MaxPooling(Pooling):
    """Largest value of each window; padding is smaller than any value."""

    name: str
    kernel: Extent
    stride: Extent
    padding: Extent = 0
    ceil: bool = False
    inputs: tuple[str, ...] = ()

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> MaxPoolingShape:
        """Of maps (H,W,C)."""
        channels = feature_map(self.name, input_shapes)[2]
        return MaxPoolingShape(images, channels, self.windows(input_shapes))


@dataclass(frozen=True, slots=True)
class AveragePooling(Pooling):
    """Mean of each window, in which padding counts as zeros, or not at all (`counts_padding`).

    What `ceil` cuts off does not count in the divisor, as in Caffe and in PyTorch with
    count_include_pad.
    """

    name: str
    kernel: Extent
    stride: Extent
    padding: Extent = 0
    ceil: bool = False
    counts_padding: bool = True
    inputs: tuple[str, ...] = ()

    def windows(self, input_shapes: tuple[Shape, ...]) -> PoolingShape:
        """The windows' places on maps (H,W,C)."""
        found = Pooling.windows(self, input_shapes)
        return replace(found, counts_padding=self.counts_padding)

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> AveragePoolingShape:
        """Of maps (H,W,C)."""
        channels = feature_map(self.name, input_shapes)[2]
        return AveragePoolingShape(images, channels, self.windows(input_shapes))


@dataclass(frozen=True, slots=True)
class AdaptiveAveragePooling(Layer):
    """Means of `lines` x `pixels` windows of about one size that cover the whole map.

    `vectorized_ops.shapes.AdaptivePoolingShape` has their places, those of PyTorch.
    """

    name: str
    lines: int
    pixels: int
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.lines, self.pixels) < 1:
            raise NetworkError(
                f"layer '{self.name}': lines = {self.lines} and pixels = {self.pixels}, expected "
                "at least 1"
            )

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C) -> (lines, pixels, C)."""
        return self.lines, self.pixels, feature_map(self.name, input_shapes)[2]

    def windows(self, input_shapes: tuple[Shape, ...]) -> AdaptivePoolingShape:
        """The windows' places on maps (H,W,C)."""
        height, width, _ = feature_map(self.name, input_shapes)
        return AdaptivePoolingShape(height, width, self.lines, self.pixels)

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> AveragePoolingShape:
        """Of maps (H,W,C)."""
        channels = feature_map(self.name, input_shapes)[2]
        return AveragePoolingShape(images, channels, self.windows(input_shapes))


@dataclass(frozen=True, slots=True)
class GlobalAveragePooling(Layer):
    """Mean of each channel over the whole map."""

    name: str
    inputs: tuple[str, ...] = ()

    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """(H,W,C) -> (C,)."""
        return feature_map(self.name, input_shapes)[2:]

    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> GlobalAveragePoolingShape:
        """Of maps (H,W,C)."""
        return GlobalAveragePoolingShape((images, *feature_map(self.name, input_shapes)))
