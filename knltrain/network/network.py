"""A network: its layers with inferred shapes, and where its parameters lie in one packed vector."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from knltrain.errors import NetworkError
from knltrain.network.layers import Layer, ParameterSpec, Shape

ALIGNMENT_FLOATS = 16  # 64 bytes: one cache line, one AVX-512 register
LAYER_NAME = re.compile(r"[A-Za-z0-9_/-]+")


@dataclass(frozen=True, slots=True)
class Network:
    """A chain of layers behind an input of shape (H, W, C).

    `shapes[i]` is the input shape of `layers[i]`, `shapes[-1]` that of the network's output.
    `parameters` holds all parameters in layer order, weights before bias, each at an offset that
    is a multiple of 16 values (64 bytes). Raises NetworkError when layers do not fit together.
    """

    name: str
    input_shape: tuple[int, int, int]
    layers: tuple[Layer, ...]
    shapes: tuple[Shape, ...] = field(init=False)
    parameters: tuple[ParameterSpec, ...] = field(init=False)

    def __post_init__(self) -> None:
        _check_layers(self.name, self.layers)
        if len(self.input_shape) != 3 or min(self.input_shape) < 1:
            raise NetworkError(
                f"input shape {self.input_shape} of network '{self.name}': expected "
                "(height, width, channels), each at least 1"
            )
        shapes: list[Shape] = [self.input_shape]
        for layer in self.layers:
            shapes.append(layer.output_shape(shapes[-1]))
        object.__setattr__(self, "shapes", tuple(shapes))
        object.__setattr__(self, "parameters", _placed(self.layers, shapes))

    @property
    def parameter_count(self) -> int:
        """Number of parameters, without the padding between them."""
        return sum(parameter.size for parameter in self.parameters)

    @property
    def packed_size(self) -> int:
        """Length of the packed vector in float32 values, padding included."""
        if not self.parameters:
            return 0
        last = self.parameters[-1]
        return _rounded_up(last.offset + last.size)

    @property
    def flops_per_image(self) -> int:
        """Operations of the forward pass of one image."""
        return sum(self._layer_flops())

    @property
    def training_flops_per_image(self) -> int:
        """Operations of one image's forward pass and both backward passes.

        Each layer costs its forward operations three times (forward, gradient of its input,
        gradient of its weights), but the first layer with parameters needs no gradient of its
        input.
        """
        flops = self._layer_flops()
        first = next((count for count in flops if count), 0)
        return 3 * sum(flops) - first

    def _layer_flops(self) -> list[int]:
        return [
            layer.flops(shape) for layer, shape in zip(self.layers, self.shapes[:-1], strict=True)
        ]


def _check_layers(network: str, layers: tuple[Layer, ...]) -> None:
    if not layers:
        raise NetworkError(f"network '{network}' has no layers: give at least one")
    for name, count in Counter(layer.name for layer in layers).items():
        if not LAYER_NAME.fullmatch(name):
            raise NetworkError(
                f"layer name '{name}' in network '{network}': "
                "expected letters, digits, '_', '-' and '/'"
            )
        if count > 1:
            raise NetworkError(
                f"{count} layers of network '{network}' are named '{name}': names must differ"
            )


def _placed(layers: tuple[Layer, ...], shapes: list[Shape]) -> tuple[ParameterSpec, ...]:
    placed: list[ParameterSpec] = []
    offset = 0
    for layer, shape in zip(layers, shapes[:-1], strict=True):
        for parameter in layer.parameters(shape):
            placed.append(replace(parameter, offset=offset))
            offset = _rounded_up(offset + parameter.size)
    return tuple(placed)


def _rounded_up(offset: int) -> int:
    return -(-offset // ALIGNMENT_FLOATS) * ALIGNMENT_FLOATS
