"""The order of transfers: in each iteration the layers from last to first, each in chunks.

Turns and chunks are counted from the begin of a run. So one number identifies a layer and an
iteration, and a counter that has reached a number has passed all before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from knltrain.errors import CollectiveError


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the parameters that is sent at once: ``part`` of the vector, within one layer.

    ``turn`` is the number of its turn; ``is_last`` tells whether it is the last chunk of the turn.
    """

    turn: int
    part: slice
    is_last: bool


@final
class Schedule:
    """Layers in the order of their forward pass, with the number of parameters of each.

    A *turn* is one layer of one iteration. Turn t·L + p is the p-th of L layers in iteration t,
    where p counts from the last layer, as in the backward pass.
    Raises CollectiveError if there are no layers, or one has no parameters.
    """

    def __init__(self, layer_sizes: Mapping[str, int], chunk_floats: int) -> None:
        if not layer_sizes or min(layer_sizes.values()) < 1 or chunk_floats < 1:
            raise CollectiveError(
                f"layer_sizes={dict(layer_sizes)}, chunk_floats={chunk_floats}: expected layers "
                "with 1 parameter or more, and chunks of 1 or more"
            )
        self.size = sum(layer_sizes.values())
        self.layers = len(layer_sizes)
        self.chunk_floats = chunk_floats
        self._parts: dict[str, slice] = {}
        begin = 0
        for layer, size in layer_sizes.items():
            self._parts[layer] = slice(begin, begin + size)
            begin += size
        self._order = list(reversed(self._parts))
        self._positions = {layer: place for place, layer in enumerate(self._order)}
        self._chunks = [
            Chunk(place, part, part.stop == self._parts[layer].stop)
            for place, layer in enumerate(self._order)
            for part in _cut(self._parts[layer], chunk_floats)
        ]
        self._ends = [number + 1 for number, chunk in enumerate(self._chunks) if chunk.is_last]

    def part(self, layer: str) -> slice:
        """Return where a layer's parameters are in the vector."""
        self.position(layer)
        return self._parts[layer]

    def position(self, layer: str) -> int:
        """Return p, a layer's position in the backward pass; CollectiveError if it is unknown."""
        if layer not in self._positions:
            raise CollectiveError(f"layer {layer!r}: expected one of {', '.join(self._parts)}")
        return self._positions[layer]

    def layer(self, turn: int) -> str:
        """Return the layer of a turn."""
        return self._order[turn % self.layers]

    def iteration(self, turn: int) -> int:
        """Return the iteration of a turn."""
        return turn // self.layers

    def chunk(self, number: int) -> Chunk:
        """Return a chunk by its number, counted over all iterations."""
        iterations, place = divmod(number, len(self._chunks))
        chunk = self._chunks[place]
        return Chunk(iterations * self.layers + chunk.turn, chunk.part, chunk.is_last)

    def chunks_until(self, turns: int) -> int:
        """Return how many chunks the first ``turns`` turns have."""
        iterations, place = divmod(turns, self.layers)
        return iterations * len(self._chunks) + (self._ends[place - 1] if place else 0)


def _cut(part: slice, size: int) -> list[slice]:
    return [
        slice(begin, min(begin + size, part.stop)) for begin in range(part.start, part.stop, size)
    ]
