"""Exchanges on two levels: inside groups of workers, and between the roots of groups."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import UNTOUCHED, Moment, ThroughTransport, Touched
from knltrain.exchange.strategies.two_levels import TwoLevelStrategy
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray


@final
class HierarchicalStrategy(TwoLevelStrategy):
    """Exchanges inside its group; the group's root also exchanges with the other groups.

    - ShmCaffe-H (Ahn, Kim, Kang, Lim, ICDCS 2018): synchronous SGD inside a group. The roots visit
      the center by SEASGD, and broadcast the resulting parameters in their groups.
    - Hierarchical SGD: averages inside the group, and less often between groups.
    """

    exchanges_on_devices = True
    marks_visits = True

    def __init__(
        self,
        method: Method,
        team: GroupedTeam,
        inside: ThroughTransport[Transport],
        outside: ThroughTransport[Transport] | None,
    ) -> None:
        super().__init__(method, team, inside, outside)
        self._moves_gradient = inside.method.moves == "gradient"

    @classmethod
    def segment_bytes(cls, method: Method, vector: int, workers: int) -> float:
        """Return the bytes of both levels, and of what the root of a group sends to the others."""
        size = method.group_size
        return super().segment_bytes(method, vector, workers) + (size - 1) * vector / size

    @property
    def parameters(self) -> FloatArray:
        """The group's local; at a root whose group moves gradients, the local between groups."""
        if self._moves_gradient and self._outside is not None:
            return self._outside.parameters
        return self._inside.parameters

    def start_from(self, values: FloatArray) -> None:
        """Set the center and all parameters to the values of rank 0 (collective)."""
        if self._outside is not None:
            self._outside.start_from(values)
        self._broadcast(self._team.center)

    def touched(self, moment: Moment, step: int) -> Touched:
        """Return what the group touches; the parameters where groups exchange."""
        if moment == "step" and self.method.due(step):
            return Touched((self.parameters,), (self.parameters,))
        return UNTOUCHED if moment == "begin" else self._inside.touched(moment, step)

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
        """Wait for the root's pending exchange."""
        if self._outside is not None:
            self._outside.settle()

    def state(self) -> dict[str, FloatArray]:
        """Return the state of the root's exchanges."""
        return {} if self._outside is None else self._outside.state()

    def _exchange_outside(self, step: int) -> None:
        outside = self._outside
        if outside is not None:
            if not self._moves_gradient:
                self.space.to_host(self.parameters)  # the group may have moved them on devices
                np.copyto(outside.parameters, self.parameters)
                self.space.changed(outside.parameters)
            outside.exchange(step)
            self.space.to_host(outside.parameters)  # as the root may have moved its own there
        self._broadcast(None if outside is None else outside.parameters)

    def _broadcast(self, values: FloatArray | None) -> None:
        """Set all parameters of the group to those of its root."""
        inside = self._team.inside
        inside.start_from(values if inside.rank == 0 else None)
        if self._moves_gradient and self._outside is None:
            np.copyto(self.parameters, inside.center)
