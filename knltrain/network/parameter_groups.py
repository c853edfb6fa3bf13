"""The settings of single parameters, and the groups of equal ones in the packed vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import final

from knltrain.errors import NetworkError, unknown_name
from knltrain.network.layers import Multipliers, ParameterSpec


@dataclass(frozen=True, slots=True)
class ParameterSetting:
    """Factors for the parameters that `pattern` matches, times those that they have already.

    A pattern, as of a shell, matches a layer ("conv1*") or a parameter ("*.bias"). With learning
    rate 0 they are frozen: they never change, nor do running statistics. `key` is that of the
    configuration, for messages.
    """

    key: str
    pattern: str
    multipliers: Multipliers

    def matches(self, spec: ParameterSpec) -> bool:
        """Tell whether it is for a parameter."""
        return any(fnmatchcase(name, self.pattern) for name in (spec.layer, spec.name))


def adjusted(
    network: str, parameters: Sequence[ParameterSpec], settings: Sequence[ParameterSetting]
) -> tuple[ParameterSpec, ...]:
    """The parameters with all settings applied.

    A layer whose parameters are all frozen by them keeps its running statistics, too; not so one
    whose scale and shift are constant by themselves. Raises NetworkError for a pattern that matches
    nothing, and where nothing is left to train.
    """
    found = [_adjusted(spec, settings) for spec in parameters]
    for setting in settings:
        if not any(map(setting.matches, parameters)):
            names = dict.fromkeys(name for spec in parameters for name in (spec.layer, spec.name))
            kind = f"layer or parameter of network '{network}' in {setting.key}"
            raise NetworkError(unknown_name(kind, setting.pattern, names))
    if settings and all(spec.is_frozen or spec.is_statistic for spec in found):
        raise NetworkError(
            f"{' and '.join(dict.fromkeys(setting.key for setting in settings))} leave nothing of "
            f"network '{network}' to train: expected patterns that spare some of its layers, such "
            f"as '{parameters[-1].layer}'"
        )
    moving = {spec.layer for spec in found if not (spec.is_frozen or spec.is_statistic)}
    stopped = {
        spec.layer
        for spec, before in zip(found, parameters, strict=True)
        if spec.is_frozen and not (before.is_frozen or spec.is_statistic)
    }
    still = stopped - moving
    return tuple(
        replace(spec, statistic_momentum=0.0) if spec.is_statistic and spec.layer in still else spec
        for spec in found
    )


def _adjusted(spec: ParameterSpec, settings: Sequence[ParameterSetting]) -> ParameterSpec:
    for setting in settings:
        if not setting.matches(spec):
            continue
        factors = setting.multipliers
        if spec.statistic_momentum is not None:
            if factors.learning_rate == 0:
                spec = replace(spec, statistic_momentum=0.0)
            continue
        spec = replace(
            spec,
            learning_rate_multiplier=spec.learning_rate_multiplier * factors.learning_rate,
            decay_multiplier=spec.decay_multiplier * factors.decay,
        )
    return spec


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


@final
@dataclass(frozen=True, slots=True)
class PartOfVector:
    """The elements [start, stop) of a network's packed vector, as a vector of its own."""

    parameters: tuple[ParameterSpec, ...]
    parameter_groups: tuple[ParameterGroup, ...]
    packed_size: int


def part_of(
    parameters: Sequence[ParameterSpec], groups: Sequence[ParameterGroup], part: slice
) -> PartOfVector:
    """What lies in a part that cuts no parameter, counted from its start on."""
    inside = (
        replace(spec, offset=spec.offset - part.start)
        for spec in parameters
        if part.start <= spec.offset < part.stop
    )
    within = parameter_groups_within(groups, part)
    return PartOfVector(tuple(inside), within, part.stop - part.start)


def _alike(left: ParameterGroup, right: ParameterGroup) -> bool:
    same = replace(right, start=left.start, stop=left.stop, layers=left.layers)
    return same == left
