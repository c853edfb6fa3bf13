"""A parameter server with synchronous steps: workers add up gradients there, a master steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from knltrain.errors import ConfigError
from knltrain.exchange.rules.accumulated_gradient import AccumulatedGradient
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import MasterStep, Moment, Touched
from knltrain.exchange.strategies.visiting import VisitingStrategy
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import WHOLE, VisitedCenter
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.exchange.transports.team import TeamFactory


@final
class ParameterServerStrategy(VisitingStrategy):
    """The synchronous mode of ShmCaffe's memory box, after its patent (US 11487698).

    1. Every worker adds its gradient to the center, in any order: the sum may differ in its last
       bits from run to run.
    2. When all have done so, rank 0, the master, moves the weights by the mean gradient, and
       clears the center. The weights lie beside it.
    3. All read the weights.
    """

    emulates_links = False
    steps_at_master = True

    def __init__(self, method: Method, transport: VisitedCenter, step: MasterStep) -> None:
        super().__init__(method, transport)
        self._take = step

    @classmethod
    def of(cls, method: Method, team: Team, step: MasterStep) -> ParameterServerStrategy:
        """Make a worker's strategy."""
        assert isinstance(team, VisitedCenter)
        return cls(method, team, step)

    @classmethod
    def join(cls, teams: TeamFactory, *, comes_alone: bool) -> Team:  # noqa: ARG003
        """Join the team of those that visit the center."""
        return teams.visiting()

    @classmethod
    def check(cls, method: Method) -> None:
        """Refuse another rule: no other keeps the weights beside the center."""
        if not isinstance(method.rule, AccumulatedGradient):
            raise ConfigError(
                f"{method.name}: {type(method.rule).__name__} does not add up gradients for a "
                "master; expected AccumulatedGradient"
            )

    @classmethod
    def sent_bytes(
        cls,
        method: Method,  # noqa: ARG003
        exchanged: int,  # noqa: ARG003
        read: int | None = None,  # noqa: ARG003
    ) -> int | None:
        """Return None: the master reads and writes more than the others."""
        return None

    def start_from(self, values: FloatArray) -> None:
        """Set all weights to those of rank 0, and the center to 0 (collective)."""
        transport = self.transport
        transport.start_from(values if transport.rank == 0 else None)
        np.copyto(self._own, transport.local)
        transport.barrier()
        if transport.rank == 0:
            self._put(transport.center)
        transport.barrier()

    def touched(self, moment: Moment, step: int) -> Touched:  # noqa: ARG002
        """Return the gradient, and the weights that take its place."""
        if moment != "gradient":
            return Touched()
        return Touched((self.gradient,), (self.parameters,))

    def exchange(self, step: int) -> None:
        """Add this worker's gradient, and take over the weights (collective)."""
        rule, transport = self.method.rule, self.transport
        for each, part in rule.on(WHOLE):
            each.contribute(self.gradient[part], transport.center[part], self._contribution[part])
        transport.push(rule, self._contribution, "first_come", transport.clocks.waiting)
        self._meet()
        if transport.rank == 0:
            transport.read_center()
            with transport.clocks.center:
                self._take.take_all(step, self._own, transport.center)
            self._put(self._own)
        self._meet()
        if transport.rank:
            transport.read_kept()
            np.copyto(self._own, transport.kept[0])

    def state(self) -> dict[str, FloatArray]:
        """Return nothing: between two steps the weights are the whole state."""
        return {}

    def _put(self, weights: FloatArray) -> None:
        """Let all others find the weights, and an empty center."""
        transport = self.transport
        np.copyto(transport.kept[0], weights)
        transport.center.fill(0)
        transport.publish()

    def _meet(self) -> None:
        with self.transport.clocks.waiting:
            self.transport.all_sum(np.zeros(1))
