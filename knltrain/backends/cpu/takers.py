"""Which layers take each output, where a concatenation may be the beginning of another one."""

from __future__ import annotations

import math
from typing import final

from knltrain.network import layers
from knltrain.network.layers import IMAGES, Layer
from knltrain.network.network import Network
from vectorized_ops.epilogue import IDENTITY, Epilogue


@final
class Takers:
    """The takers of the outputs of a network's layers.

    `branches` are those of each concatenation: its inputs, of which the longest beginning that is
    another concatenation counts as one.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._layers = {layer.name: layer for layer in network.layers}
        self._order = {name: number for number, name in enumerate(self._layers)}
        self._outputs = {output.layer for output in network.outputs}
        self.branches = _branches(network)

    def of(self, name: str) -> list[str]:
        """Return the layers that take an output, concatenations as far as it is their branch."""
        takers = [each for each in self._network.consumers(name) if each not in self.branches]
        return takers + [whole for whole, parts in self.branches.items() if name in parts]

    def sole(self, layer: Layer) -> Layer | None:
        """Return the only layer that takes the output of `layer`, which is no network output."""
        takers = self.of(layer.name)
        alone = len(takers) == 1 and layer.name not in self._outputs
        return self._layers[takers[0]] if alone else None

    def alone(self, layer: Layer, name: str) -> bool:
        """Tell whether `layer` alone takes the output of the layer `name`."""
        return name != IMAGES and self.sole(self._layers[name]) is layer

    def epilogue_behind(self, layer: Layer) -> tuple[Layer | None, Epilogue]:
        """Return the activation that can be fused into a normalisation, and what it does."""
        taker = self.sole(layer)
        if isinstance(taker, layers.ReLU):
            return taker, Epilogue(slope=taker.slope, ceiling=taker.ceiling)
        if isinstance(taker, layers.Activation):
            return taker, Epilogue(taker.function)
        return None, IDENTITY

    def plain_relu_behind(self, layer: Layer) -> layers.ReLU | None:
        """Return the ReLU that alone takes an output, if it has no slope and no ceiling."""
        taker = self.sole(layer)
        return taker if isinstance(taker, layers.ReLU) and is_plain(taker) else None

    def halves_behind(self, layer: layers.Convolution) -> layers.MaxPooling | None:
        """Return the 2x2 max pooling that can be fused into a convolution."""
        window, pool = layer.window, self.sole(layer)
        if not isinstance(pool, layers.MaxPooling):
            return None
        plain = (window.stride, window.padding, window.dilation) == ((1, 1), (0, 0), (1, 1))
        halves = (pool.kernel, pool.stride, pool.padding, pool.ceil) == (2, 2, 0, False)
        square = window.kernel[0] == window.kernel[1]
        fits = plain and halves and square and layer.bias and layer.groups == 1
        return pool if fits else None

    def may_be_part(self, name: str, whole: Layer) -> bool:
        """Tell whether a branch may lie in the memory of the whole.

        Other layers that take it must come before: theirs are the later shares in its gradient,
        which add to what the takers of the whole have written. The share of the loss comes first
        and would be overwritten, so an output of the network may not.
        """
        place = self._order[whole.name]
        if name == IMAGES or name in self._outputs:
            return False
        return all(self._order[taker] <= place for taker in self.of(name))


def is_plain(layer: layers.ReLU) -> bool:
    """Tell whether a ReLU has no slope and no ceiling."""
    return (layer.slope, layer.ceiling) == (0, math.inf)


def _branches(network: Network) -> dict[str, tuple[str, ...]]:
    known: dict[tuple[str, ...], str] = {}
    found = {}
    for layer in network.layers:
        names = network.inputs_of(layer)
        if len(names) > 1 and isinstance(layer, layers.Concatenation):
            begins = (size for size in range(len(names) - 1, 1, -1) if names[:size] in known)
            size = next(begins, 0)
            found[layer.name] = (known[names[:size]], *names[size:]) if size else names
            known.setdefault(names, layer.name)
    return found
