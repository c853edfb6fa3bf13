"""The base class of layers: a name, inputs, and a shape that follows from theirs.

A window is what convolutions and poolings look through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from knltrain.errors import NetworkError
from knltrain.network.layers.parameter import ParameterSpec, Shape
from vectorized_ops.shapes import OperationShape

__all__ = ["IMAGES", "Extent", "Layer", "Pair", "Window"]

IMAGES = "images"
"""The name under which layers take the network's input."""


class Layer(ABC):
    """One step of a network. Shapes are always those of a single image.

    `inputs` names the layers whose outputs it takes, or "images"; empty means the layer before.
    """

    __slots__ = ()

    name: str
    inputs: tuple[str, ...]

    @abstractmethod
    def output_shape(self, input_shapes: tuple[Shape, ...]) -> Shape:
        """Shape of the output; NetworkError when the layer cannot take `input_shapes`."""

    def parameters(self, input_shapes: tuple[Shape, ...]) -> tuple[ParameterSpec, ...]:  # noqa: ARG002
        """The layer's parameters, weights first, not yet placed in a packed vector."""
        return ()

    @abstractmethod
    def operation(self, images: int, input_shapes: tuple[Shape, ...]) -> OperationShape:
        """The operation for so many images, with its cost."""


def only_shape(name: str, input_shapes: tuple[Shape, ...]) -> Shape:
    """The shape of the one input of layer `name`; NetworkError when there are several."""
    if len(input_shapes) != 1:
        raise NetworkError(
            f"layer '{name}' takes one input, but is given {len(input_shapes)}: join them by a "
            "Concatenation or an Addition"
        )
    return input_shapes[0]


def feature_map(name: str, input_shapes: tuple[Shape, ...]) -> tuple[int, int, int]:
    """(H, W, C) of the one input of layer `name`; NetworkError when it is a vector."""
    shape = only_shape(name, input_shapes)
    if len(shape) != 3:
        raise NetworkError(
            f"layer '{name}' needs a feature map (H, W, C), but its input is {shape}: "
            "put it before the first dense layer"
        )
    return shape[0], shape[1], shape[2]


def check_counts(name: str, **counts: int) -> None:
    """Refuse values below 1 of layer `name`: NetworkError."""
    for key, count in counts.items():
        if count < 1:
            raise NetworkError(f"layer '{name}': {key} = {count}, expected at least 1")


Pair = tuple[int, int]
"""A number for lines and one for pixels: (height, width) of a kernel, (y, x) of a stride."""

Extent = int | Pair
"""One number for both directions, or a pair."""


def pair(extent: Extent) -> Pair:
    """Both directions, written out."""
    return extent if isinstance(extent, tuple) else (extent, extent)


def shortest(extent: Extent) -> Extent:
    """The canonical form of an extent: a single number where both directions agree."""
    lines, pixels = pair(extent)
    return lines if lines == pixels else (lines, pixels)


@dataclass(frozen=True, slots=True)
class Window:
    """Kernel, stride, padding and dilation of layer `name`, each for lines and for pixels.

    Raises NetworkError when one of them is too small.
    """

    name: str
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        for key, least in (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1)):
            given: Pair = getattr(self, key)
            if min(given) < least:
                raise NetworkError(
                    f"layer '{self.name}': {key} = {shortest(given)}, expected at least {least}"
                )

    def positions(self, height: int, width: int, ceil: bool = False) -> Pair:
        """Lines and pixels of the output: (size + 2 padding - reach) // stride + 1 for each.

        `reach` is dilation (kernel - 1) + 1. With `ceil` the division rounds up, as Caffe's
        poolings do, but a last window that would start behind the image and the padding before
        it is left out. Raises NetworkError when the window does not fit.
        """
        lines, pixels = (self._along(axis, size, ceil) for axis, size in enumerate((height, width)))
        return lines, pixels

    def _along(self, axis: int, size: int, ceil: bool) -> int:
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        padding, stride = self.padding[axis], self.stride[axis]
        free = size + 2 * padding - reach
        if free < 0:
            raise NetworkError(
                f"layer '{self.name}': a window of {reach} does not fit into {size} pixels with "
                f"padding {padding}: use a smaller kernel or a larger image"
            )
        if not ceil:
            return free // stride + 1
        last = -(-free // stride)
        return last if last * stride >= size + padding else last + 1
