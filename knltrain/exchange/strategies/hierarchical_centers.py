"""Exchanges on two levels, where the center of a group is the local of the level above."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.clocks import ExchangeClocks
from knltrain.exchange.strategies.background import Background
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.through_transport import ThroughTransport
from knltrain.exchange.strategies.two_levels import TwoLevelStrategy
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray


@final
class CenterHierarchyStrategy(TwoLevelStrategy):
    """Exchanges with its group's center, which exchanges in its turn with those of other groups.

    The same rule on two levels: workers pull on their group's center, and these on the center of
    all, which is the model. The upper exchange needs nothing of the workers, so that it goes on,
    by a thread of the group's root, while all compute the gradient of the next step (Sync EASGD3 of
    You, Buluc, Demmel, SC17, one level up), and ends before the next exchange of the group. The
    result is the same to the last bit as without overlap.
    """

    @classmethod
    def overlaps(cls, method: Method) -> bool:  # noqa: ARG003
        """All of the upper exchange does."""
        return True

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
        """Those of the group's exchanges."""
        return self._inside.parameters

    def start_from(self, values: FloatArray) -> None:
        """Give all centers and all parameters the values of rank 0 (collective)."""
        if self._outside is not None:
            self._outside.start_from(values)
        self._inside.start_from(self._team.center)

    def step_begins(self, step: int) -> None:
        """Begin what the group exchanges while it computes."""
        self._inside.step_begins(step)

    def gradient_ready(self, step: int) -> None:
        """Exchange inside the group if that is due, and then between groups."""
        if self._inside.method.due(step):
            self._await_exchange()
        self._inside.gradient_ready(step)
        if self.method.due(step):
            self._exchange_outside(step)

    def stepped(self, step: int) -> None:
        """Nothing is due then."""

    def exchange(self, step: int) -> None:
        """Exchange inside the group and between groups."""
        self._await_exchange()
        self._inside.exchange(step)
        self._exchange_outside(step)

    def settle(self) -> None:
        """Wait for what the root has under way."""
        if self._background is not None:
            self._background.wait()

    def state(self) -> dict[str, FloatArray]:
        """At a root, the center of its group, and what its exchanges have to keep."""
        if self._outside is None:
            return {}
        return {"center": self._team.inside.center, **self._outside.state()}

    def close(self) -> None:
        """End the thread, and let go of all vectors."""
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
