"""The base class of layers: a name, inputs, and a shape that follows from theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from knltrain.errors import NetworkError
from knltrain.network.layers.parameter import ParameterSpec, Shape
from vectorized_ops.shapes import OperationShape

__all__ = ["IMAGES", "Layer"]

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
