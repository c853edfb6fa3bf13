"""Exchanges on two levels: of the workers of a group, and of the groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Levels, Method, SegmentNeed
from knltrain.exchange.strategies.strategy import StepLayer, Strategy, strategy_in
from knltrain.exchange.strategies.through_transport import ThroughTransport
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.config import RunConfig


class TwoLevelStrategy(Strategy):
    """Exchanges inside a group, and between groups by their roots, which alone have ``outside``."""

    schedules = ("synchronous", "first_come", "round_robin", "lock_free")
    emulates_links = False

    def __init__(
        self,
        method: Method,
        team: GroupedTeam,
        inside: ThroughTransport[Transport],
        outside: ThroughTransport[Transport] | None,
    ) -> None:
        self.method = method
        self.team = team
        self._team = team
        self._inside, self._outside = inside, outside

    @classmethod
    def of(cls, method: Method, team: Team, step_layer: StepLayer) -> TwoLevelStrategy:
        """The part of a worker in its group, and at a root that of its group among the others."""
        assert isinstance(team, GroupedTeam)
        assert method.levels is not None
        inside = strategy_in(method.levels.inside, team.inside, step_layer)
        assert isinstance(inside, ThroughTransport)
        if team.outside is None:
            return cls(method, team, inside, None)
        outside = strategy_in(method.levels.outside, team.outside, step_layer)
        assert isinstance(outside, ThroughTransport)
        return cls(method, team, inside, outside)

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse groups that would meet when their workers do not."""
        inner = _levels(method).inside.period
        if method.period is not None and inner is not None and method.period % inner:
            raise ConfigError(
                f"exchange.communication_period = {method.period}: expected a multiple of "
                f"exchange.group_period = {inner}, so that groups meet when their workers do"
            )

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """What goes between computers are the exchanges of groups."""
        outside = _levels(method).outside
        outside.strategy.check_run(outside, config)

    @classmethod
    def overlaps(cls, method: Method) -> bool:
        """Where exchanges of groups do."""
        outside = _levels(method).outside
        return outside.strategy.overlaps(outside)

    @classmethod
    def vectors(cls, method: Method) -> int:
        """Those of both levels, and the two of a root."""
        levels = (_levels(method).inside, _levels(method).outside)
        return 2 + sum(each.strategy.vectors(each) for each in levels)

    @classmethod
    def segments(cls, method: Method, workers: int, nodes: int) -> tuple[SegmentNeed, ...]:
        """One for each group, and one for the roots.

        On several nodes the workers of each are one group. Where groups come to the center alone,
        which then is no replica, each root has a spare for its copy, where its group reads it.
        """
        levels = _levels(method)
        groups, inside, outside = workers // levels.group_size, levels.inside, levels.outside
        of_group = inside.strategy.segments(inside, levels.group_size, 1)
        *others, of_roots = outside.strategy.segments(outside, groups, nodes)
        spares = of_roots.spares or (nodes > 1 and method.comes_alone)
        return (*of_group * groups, *others, replace(of_roots, spares=spares))

    @classmethod
    def sent_bytes(cls, method: Method, exchanged: int) -> int | None:
        """What the exchanges of groups send."""
        outside = _levels(method).outside
        return outside.strategy.sent_bytes(outside, exchanged)

    @property
    def gradient(self) -> FloatArray:
        """The gradient that the group's exchanges move, or do not."""
        return self._inside.gradient

    @property
    def model(self) -> FloatArray:
        """The center of the groups."""
        return self._team.center

    def begin(self) -> None:
        """Set out from the center of the groups."""
        self._inside.begin()
        if self._outside is not None:
            self._outside.begin()

    def close(self) -> None:
        """Let go of all vectors."""
        self._inside.close()
        if self._outside is not None:
            self._outside.close()
        self._team.close()


def _levels(method: Method) -> Levels:
    if method.levels is None:
        raise ConfigError(f"{method.name}: expected the methods of two levels")
    return method.levels
