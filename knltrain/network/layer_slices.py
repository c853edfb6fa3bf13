"""Splits the packed vector at the boundaries of layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Protocol

from knltrain.errors import ConfigError


class PackedParameter(Protocol):
    """A parameter in a packed vector; its name is that of its layer, a dot and its own."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def offset(self) -> int:
        """Its first element."""

    @property
    def is_statistic(self) -> bool:
        """Whether it is a running statistic."""


class PackedLayers(Protocol):
    """What lies in a packed vector of `packed_size` elements, such as a network."""

    @property
    def name(self) -> str:
        """Its name, for messages."""

    @property
    def parameters(self) -> Sequence[PackedParameter]:
        """All parameters, in the order of the vector."""

    @property
    def packed_size(self) -> int:
        """The length of the vector."""


def layer_parts(network: PackedLayers) -> tuple[slice, ...]:
    """The elements of each layer that has parameters; together they are the whole vector."""
    by_layer = groupby(network.parameters, key=lambda each: each.name.rpartition(".")[0])
    begins = [next(parameters).offset for _, parameters in by_layer]
    return tuple(slice(*ends) for ends in pairwise([*begins, network.packed_size]))


def statistic_parts(network: PackedLayers) -> tuple[slice, ...]:
    """The elements of running statistics; those that follow each other are one part."""
    found: list[slice] = []
    ends = [*(each.offset for each in network.parameters), network.packed_size][1:]
    for each, end in zip(network.parameters, ends, strict=True):
        if each.is_statistic:
            begin = found.pop().start if found and found[-1].stop == each.offset else each.offset
            found.append(slice(begin, end))
    return tuple(found)


def layer_sizes(network: PackedLayers) -> tuple[tuple[str, int], ...]:
    """Name and number of elements of each layer that has parameters, as `layer_parts` cuts them."""
    names = dict.fromkeys(each.name.rpartition(".")[0] for each in network.parameters)
    sizes = (part.stop - part.start for part in layer_parts(network))
    return tuple(zip(names, sizes, strict=True))


def of_least_size(parts: Sequence[slice], floats: int) -> tuple[slice, ...]:
    """Join consecutive ``parts``, from the last one on, until each has ``floats`` elements.

    The first result may have fewer.
    """
    found: list[slice] = []
    end = parts[-1].stop
    for part in reversed(parts):
        if end - part.start >= floats or part is parts[0]:
            found.append(slice(part.start, end))
            end = part.start
    return tuple(reversed(found))


def fragments(network: PackedLayers, count: int) -> tuple[slice, ...]:
    """Cut the vector into ``count`` parts of whole layers, as even as layers allow.

    Each has at least one layer. Raises ConfigError where there are fewer layers than that.
    """
    begins = [part.start for part in layer_parts(network)]
    if count > len(begins):
        raise ConfigError(
            f"exchange.fragments = {count}: expected at most {len(begins)}, the layers of "
            f"{network.name} that have parameters"
        )
    cuts = [0]
    for number in range(1, count):
        ideal = network.packed_size * number / count
        # Enough layers are left for the fragments that follow.
        choices = begins[begins.index(cuts[-1]) + 1 : len(begins) - (count - number) + 1]
        cuts.append(min(choices, key=lambda begin: abs(begin - ideal)))
    return tuple(slice(*ends) for ends in pairwise([*cuts, network.packed_size]))
