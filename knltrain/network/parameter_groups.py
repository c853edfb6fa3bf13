"""The parameter groups of the packed vector, as runs of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from knltrain.network.layers import ParameterSpec


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """The elements [start, stop) of a packed vector, with the settings of their ParameterSpec.

    `layers` are those with a parameter in it, in order. The padding behind a parameter belongs to
    its group.
    """

    start: int
    stop: int
    learning_rate_multiplier: float
    decay_multiplier: float
    statistic_momentum: float | None
    layers: tuple[str, ...]


def parameter_groups_of(
    parameters: Sequence[ParameterSpec], packed_size: int
) -> tuple[ParameterGroup, ...]:
    """The fewest groups that cover [0, packed_size), given parameters in order of offset."""
    found: list[ParameterGroup] = []
    stops = [*(spec.offset for spec in parameters), packed_size][1:]
    for spec, stop in zip(parameters, stops, strict=True):
        one = ParameterGroup(
            spec.offset,
            stop,
            spec.learning_rate_multiplier,
            spec.decay_multiplier,
            spec.statistic_momentum,
            (spec.layer,),
        )
        if found and _alike(found[-1], one):
            layers = dict.fromkeys((*found[-1].layers, spec.layer))
            found[-1] = replace(found[-1], stop=stop, layers=tuple(layers))
        else:
            found.append(one)
    return tuple(found)


def parameter_groups_within(
    groups: Sequence[ParameterGroup], part: slice
) -> tuple[ParameterGroup, ...]:
    """The ``groups`` of the elements [part.start, part.stop), counted from part.start on."""
    return tuple(
        replace(
            each,
            start=max(each.start, part.start) - part.start,
            stop=min(each.stop, part.stop) - part.start,
        )
        for each in groups
        if each.start < part.stop and each.stop > part.start
    )


def _alike(left: ParameterGroup, right: ParameterGroup) -> bool:
    same = replace(right, start=left.start, stop=left.stop, layers=left.layers)
    return same == left
