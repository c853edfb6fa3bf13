"""Exchanges on two levels: the center of a group is a local of the upper level."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.clocks import ExchangeClocks
from knltrain.exchange.strategies.background import Background
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import UNTOUCHED, Moment, ThroughTransport, Touched
from knltrain.exchange.strategies.two_levels import TwoLevelStrategy
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray


@final
class CenterHierarchyStrategy(TwoLevelStrategy):
    """Exchanges with its group's center; group centers exchange with the center of all.

    Both levels use the same rule. The center of all is the model. The upper exchange needs nothing
    of the workers. So a thread of the group's root does it while all compute the gradient of the
    next step (Sync EASGD3 of You, Buluc, Demmel, SC17, one level up). It ends before the next
    exchange of the group, with the same bits as without overlap.
    """

    @classmethod
    def overlapped_share(cls, method: Method) -> float:  # noqa: ARG003
        """Return 1: the whole upper exchange overlaps."""
        return 1.0

    def __init__(
        self,
        method: Method,
        team: GroupedTeam,
        inside: ThroughTransport[Transport],
        outside: ThroughTransport[Transport] | None,
    ) -> None:
        super().__init__(method, team, inside, outside)
        self._background: Background | None = None
        if outside is not None:
            self._background = Background("knltrain-exchange", team.clocks.beside)
            outside.transport.clocks = ExchangeClocks()  # its waiting costs the worker nothing

    @property
    def parameters(self) -> FloatArray:
        """The local of the group's exchanges."""
        return self._inside.parameters

    def start_from(self, values: FloatArray) -> None:
        """Set all centers and all parameters to the values of rank 0 (collective)."""
        if self._outside is not None:
            self._outside.start_from(values)
        self._inside.start_from(self._team.center)

    def touched(self, moment: Moment, step: int) -> Touched:
        """Return what the group's exchange touches: that between groups needs no local."""
        return UNTOUCHED if moment == "step" else self._inside.touched(moment, step)

    def step_begins(self, step: int) -> None:
        """Begin the group's exchange if it overlaps with computing."""
        self._inside.step_begins(step)

    def gradient_ready(self, step: int) -> None:
        """Exchange inside the group if that is due, and then between groups."""
        if self._inside.method.due(step):
            self._await_exchange()
        self._inside.gradient_ready(step)
        if self.method.due(step):
            self._exchange_outside(step)

    def stepped(self, step: int) -> None:
        """Do nothing: no exchange is due at this moment."""

    def exchange(self, step: int) -> None:
        """Exchange inside the group and between groups."""
        self._await_exchange()
        self._inside.exchange(step)
        self._exchange_outside(step)

    def settle(self) -> None:
        """Wait for the root's pending exchange."""
        if self._background is not None:
            self._background.wait()

    def state(self) -> dict[str, FloatArray]:
        """Return, at a root, the center of its group and the state of its exchanges."""
        if self._outside is None:
            return {}
        return {"center": self._team.inside.center, **self._outside.state()}

    def close(self) -> None:
        """End the thread, and release all vectors."""
        if self._background is not None:
            self._background.close()
        super().close()

    def _await_exchange(self) -> None:
        with self.team.clocks.waiting:
            self.settle()

    def _exchange_outside(self, step: int) -> None:
        if self._outside is None:
            return
        if self._background is None:
            self._exchange_centers(step)
        else:
            self._background.begin(lambda: self._exchange_centers(step))

    def _exchange_centers(self, step: int) -> None:
        assert self._outside is not None
        local, center = self._outside.parameters, self._team.inside.center
        apart = local.ctypes.data != center.ctypes.data
        if apart:
            np.copyto(local, center)
        self._outside.exchange(step)
        if apart:
            np.copyto(center, local)
