"""Exchanges of all workers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from knltrain.errors import ConfigError
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import MasterStep, ThroughTransport
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import CollectiveTransport

if TYPE_CHECKING:
    from knltrain.config import RunConfig


class CollectiveStrategy(ThroughTransport[CollectiveTransport]):
    """Exchanges with all workers at once."""

    def __init__(self, method: Method, transport: CollectiveTransport) -> None:
        super().__init__(method, transport)
        assert isinstance(method.rule, SynchronousRule)
        self._rule = method.rule

    @classmethod
    def of(cls, method: Method, team: Team, step: MasterStep) -> CollectiveStrategy:  # noqa: ARG003
        """Make a worker's strategy; ConfigError for a transport without exchanges of all."""
        if not isinstance(team, CollectiveTransport):
            raise ConfigError(
                f"the schedule '{method.schedule}' is for workers that exchange all at once: "
                "expected one whose workers visit the center in any order, such as that of 'seasgd'"
            )
        return cls(method, team)


@final
class SynchronousStrategy(CollectiveStrategy):
    """Exchanges with all workers at once, each doing its share of the work."""

    takes_parts = True
    exchanges_on_devices = True

    def exchange(self, step: int) -> None:
        """Exchange with all workers at once, all parts of the vectors one after another."""
        self._rule.prepare(step)
        for part in self.method.parts:
            self.transport.exchange(self._rule, part)


@final
class MasterStrategy(CollectiveStrategy):
    """Exchanges with all workers at once; rank 0 alone moves the center."""

    needs_spares = True

    @classmethod
    def check_run(cls, method: Method, config: RunConfig) -> None:
        """Refuse wire formats other than float32 for a master's center."""
        if (chosen := config.exchange.wire_format) != "float32":
            raise ConfigError(
                f"exchange.wire_format = '{chosen}': by {method.name} the center is sent to all as "
                "it is, in float32: expected 'float32', or a method that shares the work, as "
                "'sync_easgd2'"
            )

    def exchange(self, step: int) -> None:
        """Exchange by the center at rank 0."""
        self._rule.prepare(step)
        self.transport.exchange_at_master(self._rule)
