"""One worker's part in the exchanges of its run: what it does at the moments of a step."""

from __future__ import annotations

from dataclasses import replace

from knltrain.exchange.strategies.asynchronous import ComesAlone, WritesBehind
from knltrain.exchange.strategies.hierarchical import MeetsInGroups
from knltrain.exchange.strategies.hierarchical_centers import MeetsThroughCenters
from knltrain.exchange.strategies.layer_trees import GoesAlongTrees, StepLayer
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import Participation, ThroughTransport
from knltrain.exchange.strategies.synchronous import (
    MeetsAll,
    MeetsInBackward,
    MeetsInFragments,
    MeetsMeanwhile,
)
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import Transport
from knltrain.exchange.transports.tree_team import TreeTeam
from knltrain.vectors import FloatArray

__all__ = ["Participation", "StepLayer", "participation_in"]


def stays(_step: int, _layer: int, _weights: FloatArray, _gradient: FloatArray) -> None:
    """Take no step."""


def participation_in(method: Method, team: Team, step_layer: StepLayer = stays) -> Participation:
    """A worker's part in the exchanges of ``method``.

    ``team`` is a GroupedTeam where the method has an exchange inside groups, a TreeTeam where it
    goes along trees, else a Transport. ``step_layer`` is for trees: what rank 0 does with a layer's
    mean gradient.
    """
    if method.trees:
        assert isinstance(team, TreeTeam)
        return GoesAlongTrees(method, team, step_layer)
    if method.inside is None:
        assert isinstance(team, Transport)
        return _through(method, team)
    assert isinstance(team, GroupedTeam)
    kind = MeetsThroughCenters if method.through_centers else MeetsInGroups
    # Centers that exchange behind the next gradient do so as a whole, by a thread of their own.
    above = replace(method, overlap="nothing") if method.through_centers else method
    outside = None if team.outside is None else _through(above, team.outside)
    return kind(method, team, _through(method.inside, team.inside), outside)


def _through(method: Method, transport: Transport) -> ThroughTransport:
    if method.schedule != "synchronous":
        kind = WritesBehind if method.overlap == "writes" else ComesAlone
        return kind(method, transport, method.schedule)
    if method.stream is not None:
        return MeetsInFragments(method, transport)
    if method.overlap == "backward":
        return MeetsInBackward(method, transport)
    if method.overlap == "gradient":
        return MeetsMeanwhile(method, transport)
    return MeetsAll(method, transport)
