"""The base of strategies on two levels: inside groups, and between their roots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from knltrain.clocks import Marks
from knltrain.errors import ConfigError
from knltrain.exchange.strategies.method import Levels, Method, SegmentNeed
from knltrain.exchange.strategies.strategy import (
    MasterStep,
    Strategy,
    ThroughTransport,
    strategy_in,
)
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import HOST, FloatArray, VectorSpace

if TYPE_CHECKING:
    from knltrain.config import RunConfig


class TwoLevelStrategy(Strategy):
    """Exchanges inside a group, and between groups by their roots; only roots have ``outside``."""

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
        self._space: VectorSpace = HOST

    @property
    def space(self) -> VectorSpace:
        """Where parameters and gradient are computed with, on both levels."""
        return self._space

    @space.setter
    def space(self, space: VectorSpace) -> None:
        self._space = self._inside.space = space
        if self._outside is not None:
            self._outside.space = space

    @classmethod
    def of(cls, method: Method, team: Team, step: MasterStep) -> TwoLevelStrategy:
        """Make a worker's strategy in its group, and at a root also that between groups."""
        assert isinstance(team, GroupedTeam)
        assert method.levels is not None
        inside = strategy_in(method.levels.inside, team.inside, step)
        assert isinstance(inside, ThroughTransport)
        if team.outside is None:
            return cls(method, team, inside, None)
        outside = strategy_in(method.levels.outside, team.outside, step)
        assert isinstance(outside, ThroughTransport)
        return cls(method, team, inside, outside)

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse an outer period that is no multiple of the group's period."""
        inner = _levels(method).inside.period
        if method.period is not None and inner is not None and method.period % inner:
            raise ConfigError(
                f"exchange.communication_period = {method.period}: expected a multiple of "
                f"exchange.group_period = {inner}, so that groups exchange when their workers do"
            )

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Check the exchanges between groups: only they go between computers."""
        outside = _levels(method).outside
        outside.strategy.check_run(outside, config)

    @classmethod
    def overlapped_share(cls, method: Method) -> float:
        """Return that of exchanges between groups."""
        outside = _levels(method).outside
        return outside.strategy.overlapped_share(outside)

    @classmethod
    def vectors(cls, method: Method) -> int:
        """Return the vectors of both levels, plus two of a root."""
        levels = (_levels(method).inside, _levels(method).outside)
        return 2 + sum(each.strategy.vectors(each) for each in levels)

    @classmethod
    def segments(cls, method: Method, workers: int, nodes: int) -> tuple[SegmentNeed, ...]:
        """Return one segment for each group, and one for the roots.

        On several nodes the workers of each are one group. If groups visit the center there are no
        replicas; each root then has a spare for a copy of the center, which its group reads.
        """
        levels = _levels(method)
        groups, inside, outside = workers // levels.group_size, levels.inside, levels.outside
        of_group = inside.strategy.segments(inside, levels.group_size, 1)
        *others, of_roots = outside.strategy.segments(outside, groups, nodes)
        spares = of_roots.spares or (nodes > 1 and method.comes_alone)
        return (*of_group * groups, *others, replace(of_roots, spares=spares))

    @classmethod
    def sent_bytes(cls, method: Method, exchanged: int, read: int | None = None) -> int | None:
        """Return the bytes of the exchanges between groups."""
        outside = _levels(method).outside
        return outside.strategy.sent_bytes(outside, exchanged, read)

    @classmethod
    def segment_bytes(cls, method: Method, vector: int, workers: int) -> float:
        """Return the bytes of both levels: in groups by their own period, and between the roots."""
        levels = _levels(method)
        inside, outside, size = levels.inside, levels.outside, levels.group_size
        of_group = inside.strategy.segment_bytes(inside, vector, size)
        times = method.period / inside.period if method.period and inside.period else 0.0
        of_roots = outside.strategy.segment_bytes(outside, vector, workers // size)
        return times * of_group + of_roots / size

    @property
    def gradient(self) -> FloatArray:
        """The gradient of the strategy inside the group."""
        return self._inside.gradient

    @property
    def model(self) -> FloatArray:
        """The center of all groups."""
        return self._team.center

    def begin(self) -> None:
        """Begin on both levels."""
        self._inside.begin()
        if self._outside is not None:
            self._outside.begin()

    def observe(self, marks: Marks, beside: Marks) -> None:
        """Mark what a root's strategy marks of the exchanges between groups."""
        if self._outside is not None:
            self._outside.observe(marks, beside)

    def close(self) -> None:
        """Release all vectors."""
        self._inside.close()
        if self._outside is not None:
            self._outside.close()
        self._team.close()


def _levels(method: Method) -> Levels:
    if method.levels is None:
        raise ConfigError(f"{method.name}: expected the methods of two levels")
    return method.levels
