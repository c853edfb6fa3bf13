"""Exchanges on two levels: of the workers of a group, and of the groups."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.through_transport import ThroughTransport
from knltrain.exchange.strategies.two_levels import TwoLevelStrategy
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray


@final
class HierarchicalStrategy(TwoLevelStrategy):
    """Exchanges inside its group, for which the group's root exchanges with the other groups.

    ShmCaffe-H: inside a group, synchronous SGD; the roots come to the center by SEASGD, and what
    that leaves is broadcast in the group (Ahn, Kim, Kang, Lim, ICDCS 2018). Hierarchical SGD:
    averages inside the group, and now and then among the groups.
    """

    def __init__(
        self,
        method: Method,
        team: GroupedTeam,
        inside: ThroughTransport[Transport],
        outside: ThroughTransport[Transport] | None,
    ) -> None:
        super().__init__(method, team, inside, outside)
        self._moves_gradient = inside.method.moves == "gradient"

    @property
    def parameters(self) -> FloatArray:
        """Those of the group's exchanges; at a root whose group moves gradients, of the groups'."""
        if self._moves_gradient and self._outside is not None:
            return self._outside.parameters
        return self._inside.parameters

    def start_from(self, values: FloatArray) -> None:
        """Give the center and all parameters the values of rank 0 (collective)."""
        if self._outside is not None:
            self._outside.start_from(values)
        self._broadcast(self._team.center)

    def gradient_ready(self, step: int) -> None:
        """Exchange inside the group, if that moves gradients."""
        self._inside.gradient_ready(step)

    def stepped(self, step: int) -> None:
        """Exchange inside the group, if that moves parameters, and then between groups."""
        self._inside.stepped(step)
        if self.method.due(step):
            self._exchange_outside(step)

    def exchange(self, step: int) -> None:
        """Exchange inside the group and between groups."""
        self._inside.exchange(step)
        self._exchange_outside(step)

    def settle(self) -> None:
        """Wait for what the root has under way."""
        if self._outside is not None:
            self._outside.settle()

    def state(self) -> dict[str, FloatArray]:
        """What the root's exchanges have to keep."""
        return {} if self._outside is None else self._outside.state()

    def _exchange_outside(self, step: int) -> None:
        outside = self._outside
        if outside is not None:
            if not self._moves_gradient:
                np.copyto(outside.parameters, self.parameters)
            outside.exchange(step)
        self._broadcast(None if outside is None else outside.parameters)

    def _broadcast(self, values: FloatArray | None) -> None:
        """Give all parameters of the group those of its root."""
        inside = self._team.inside
        inside.start_from(values if inside.rank == 0 else None)
        if self._moves_gradient and self._outside is None:
            np.copyto(self.parameters, inside.center)
