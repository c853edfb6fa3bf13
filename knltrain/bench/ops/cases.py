"""The operations of a network, each shape once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from knltrain.network.network import Network
from vectorized_ops.shapes import TimedShape


@dataclass(frozen=True, slots=True)
class Case:
    """One operation on one shape; `layers` is the number of layers with that shape."""

    operation: TimedShape
    layers: int = 1


def cases(network: Network, batch: int) -> list[Case]:
    """Return the operations of a network that can be measured alone, in order of appearance."""
    found = Counter(network.operation(layer, batch) for layer in network.layers)
    return [Case(each, count) for each, count in found.items() if isinstance(each, TimedShape)]
