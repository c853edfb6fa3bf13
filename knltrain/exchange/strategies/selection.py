"""The strategy of a method."""

from __future__ import annotations

from dataclasses import replace

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy, OverlappedPushStrategy
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.hierarchical_centers import CenterHierarchyStrategy
from knltrain.exchange.strategies.layer_trees import LayerTreeStrategy, StepLayer
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import Strategy, ThroughTransport
from knltrain.exchange.strategies.synchronous import (
    LayerwiseStrategy,
    OverlappedStrategy,
    StreamingStrategy,
    SynchronousStrategy,
)
from knltrain.exchange.transports.collective_transport import CollectiveTransport
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import Transport
from knltrain.exchange.transports.tree_team import TreeTeam
from knltrain.exchange.transports.visited_center import VisitedCenter
from knltrain.vectors import FloatArray


def stays(_step: int, _layer: int, _weights: FloatArray, _gradient: FloatArray) -> None:
    """Take no step."""


def strategy_in(method: Method, team: Team, step_layer: StepLayer = stays) -> Strategy:
    """How a worker takes part in the exchanges of ``method``.

    ``team`` is a GroupedTeam where the method has an exchange inside groups, a TreeTeam where it
    goes along trees, else a Transport. ``step_layer`` is for trees: what rank 0 does with a layer's
    mean gradient.
    """
    if method.trees:
        assert isinstance(team, TreeTeam)
        return LayerTreeStrategy(method, team, step_layer)
    if method.inside is None:
        assert isinstance(team, Transport)
        return _through(method, team)
    assert isinstance(team, GroupedTeam)
    kind = CenterHierarchyStrategy if method.through_centers else HierarchicalStrategy
    # Centers that exchange behind the next gradient do so as a whole, by a thread of their own.
    above = replace(method, overlap="nothing") if method.through_centers else method
    outside = None if team.outside is None else _through(above, team.outside)
    return kind(method, team, _through(method.inside, team.inside), outside)


def _through(method: Method, transport: Transport) -> ThroughTransport[Transport]:
    if method.schedule != "synchronous":
        if not isinstance(transport, VisitedCenter):
            raise ConfigError(
                f"the order '{method.schedule}' is for workers that come to the center alone, "
                "which has a replica on every node here: expected a method whose workers exchange "
                "all at once, such as sync_easgd"
            )
        kind = OverlappedPushStrategy if method.overlap == "writes" else AsynchronousStrategy
        return kind(method, transport, method.schedule)
    if not isinstance(transport, CollectiveTransport):
        raise ConfigError(
            f"the schedule '{method.schedule}' is for workers that exchange all at once: expected "
            "one whose workers come to the center alone, as they come, such as that of 'seasgd'"
        )
    if method.stream is not None:
        return StreamingStrategy(method, transport)
    if method.overlap == "backward":
        return LayerwiseStrategy(method, transport)
    if method.overlap == "gradient":
        return OverlappedStrategy(method, transport)
    return SynchronousStrategy(method, transport)
