"""What the loop over the steps calls, so that it need not know how a method's workers meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from knltrain.exchange.strategies.method import Method
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray, aligned_zeros


class Strategy(ABC):
    """One worker's part in the exchanges of its run.

    A step has the moments `step_begins` and `gradient_ready`, until the end of which the local is
    W_t, and `stepped`, when it has moved by the gradient. All take the number of the step, from 0.
    Between the first two, `gradient_done_from` follows the gradient from its end to its beginning.
    """

    method: Method
    team: Team
    """All workers of the run."""

    @property
    @abstractmethod
    def parameters(self) -> FloatArray:
        """This worker's parameters, (n,) float32; an exchange may make it another array."""

    @property
    @abstractmethod
    def gradient(self) -> FloatArray:
        """This worker's gradient, (n,) float32."""

    @property
    @abstractmethod
    def model(self) -> FloatArray:
        """The parameters that are evaluated and kept, (n,) float32."""

    @abstractmethod
    def start_from(self, values: FloatArray) -> None:
        """Give every vector of parameters the values (n,) of rank 0 (collective)."""

    def begin(self) -> None:  # noqa: B027
        """Set out from the center that all workers have been given: the rule may remember it."""

    def step_begins(self, step: int) -> None:  # noqa: B027
        """Begin an exchange that is due, and needs no gradient."""

    def gradient_done_from(self, offset: int) -> None:  # noqa: B027
        """Begin to exchange what is done of the gradient: all from ``offset`` on."""

    @abstractmethod
    def gradient_ready(self, step: int) -> None:
        """Exchange if it is due when the gradient of a step is ready."""

    @abstractmethod
    def stepped(self, step: int) -> None:
        """Exchange if it is due when the local has moved."""

    @abstractmethod
    def exchange(self, step: int) -> None:
        """Do now what an exchange that is due does."""

    def settle(self) -> None:  # noqa: B027
        """Return when nothing of this worker is under way to the center any more."""

    @abstractmethod
    def state(self) -> dict[str, FloatArray]:
        """What has to be kept of a run between two steps, besides locals and model; views."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all vectors, and of the memory that the workers share."""


AnyTransport = TypeVar("AnyTransport", bound=Transport, covariant=True)


class ThroughTransport(Strategy, Generic[AnyTransport]):
    """Exchanges through one transport, whose local is what the method moves."""

    def __init__(self, method: Method, transport: AnyTransport) -> None:
        self.method = method
        self.team = self.transport = transport
        self._own = aligned_zeros(transport.local.size)

    @property
    def parameters(self) -> FloatArray:
        """The transport's local, or a vector beside it."""
        return self.transport.local if self.method.moves == "parameters" else self._own

    @property
    def gradient(self) -> FloatArray:
        """The other one."""
        return self._own if self.method.moves == "parameters" else self.transport.local

    @property
    def model(self) -> FloatArray:
        """The center or what the rule has in its place; where gradients move, any replica."""
        if self.method.moves == "gradient":
            return self._own
        return self.method.rule.model(self.transport.center, self.transport.kept)

    def start_from(self, values: FloatArray) -> None:
        """Give the center and every local the values of rank 0 (collective)."""
        leads = self.transport.rank == 0
        self.transport.start_from(values if leads else None)
        if self.transport.keeps_center:
            self.method.rule.found(self.transport.center, self.transport.kept)
        if self.method.moves == "gradient":
            np.copyto(self._own, self.transport.center)

    def gradient_ready(self, step: int) -> None:
        """Exchange if it is due when the gradient of a step is ready."""
        if self.method.after == "gradient" and self.method.due(step):
            self.exchange(step)

    def stepped(self, step: int) -> None:
        """Exchange if it is due when the local has moved."""
        if self.method.after == "step" and self.method.due(step):
            self.exchange(step)

    def state(self) -> dict[str, FloatArray]:
        """At who keeps it, what is beside the center, and the center where that is no model."""
        if not self.transport.keeps_center:
            return {}
        found = {f"kept{number}": each for number, each in enumerate(self.transport.kept)}
        if self.transport.residual.size and not self.method.rule.takes_back:
            found["residual"] = self.transport.residual
        if (
            self.method.rule.model(self.transport.center, self.transport.kept)
            is self.transport.center
        ):
            return found
        return {**found, "center": self.transport.center}

    def close(self) -> None:
        """Let go of all vectors."""
        self._own = np.zeros(0, np.float32)
        self.transport.close()


class OnTwoLevels(Strategy):
    """Exchanges inside a group, and between groups by their roots, which alone have ``outside``."""

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
