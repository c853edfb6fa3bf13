"""Which layers take each output, where a concatenation may be the beginning of another one."""

from __future__ import annotations

from typing import final

from knltrain.network import layers
from knltrain.network.layers import IMAGES, Layer
from knltrain.network.network import Network


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
