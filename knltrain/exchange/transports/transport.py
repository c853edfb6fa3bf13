"""The interfaces of transports: a worker's own vectors, and the center of all workers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias

import numpy as np

from knltrain.clocks import UNOBSERVED, Clock, Marks
from knltrain.exchange.rules.rule import ExchangeRule, SynchronousRule
from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray


class Transport(Team):
    """One worker's access to the center and to its peers; also a `Team`.

    Workers exchange all at once (`CollectiveTransport`), or each visits the center
    (`VisitedCenter`).
    """

    on_host: bool = True
    """Whether exchanges are on the host; else vectors stay on devices."""

    local: FloatArray
    """This worker's vector, shape (n,) float32, in the transport's memory; the worker fills it."""

    spare: FloatArray
    """A second vector, which peers can read, too; (0,) if there are no spares."""

    center: FloatArray
    """The vector common to all workers, shape (n,) float32; moved by exchanges only."""

    kept: FloatArray
    """The vectors that a rule keeps beside the center, shape (C − 1, n) float32."""

    @property
    def residual(self) -> FloatArray:
        """The residual of contributions for the next exchanges, (n,), or (0,) if none is kept."""
        return np.zeros(0, np.float32)

    @property
    def keeps_center(self) -> bool:
        """Whether this worker saves the center and ``kept``: rank 0, or one for each replica."""
        return self.rank == 0

    @abstractmethod
    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and every local to the values of rank 0 (collective); ``kept`` to 0.

        ``values`` has shape (n,) float32. Only rank 0's are used; the others may pass None.
        """

    def publish(self) -> None:
        """Let all others find ``center`` and ``kept`` as this worker, which keeps them, has them.

        Nothing has to be done where they lie in shared memory.
        """


WHOLE = slice(None)
"""All elements of the vectors."""


class CollectiveTransport(Transport):
    """A transport by which all workers exchange at once: every exchange is collective."""

    @abstractmethod
    def exchange(self, rule: SynchronousRule, part: slice = WHOLE) -> None:
        """Apply ``rule`` once to a part of the locals of all workers and the center."""

    @abstractmethod
    def exchange_beside(
        self, rule: SynchronousRule, part: slice = WHOLE, *, of_locals: bool = True
    ) -> None:
        """Apply ``rule`` to the spares instead of the locals, which may be read meanwhile.

        With ``of_locals`` the spares begin as copies of the locals, which must not be written
        meanwhile. Another thread may call this, as the only collective call of this worker.
        """

    @abstractmethod
    def swap(self) -> None:
        """Swap locals and spares; all workers must do so between the same exchanges."""

    @abstractmethod
    def exchange_at_master(self, rule: SynchronousRule) -> None:
        """Apply ``rule`` once; rank 0 moves the center.

        The workers write their contributions into their spares. These are added up along a binomial
        tree, which leaves partial sums in the spares. Rank 0 alone absorbs the sum. For rules whose
        `follow` does not read the contribution.
        """


Order: TypeAlias = Literal["first_come", "round_robin", "lock_free"]
"""How visits exclude each other: by a lock for each piece of the center ("first_come"), by turns in
rank order ("round_robin"), or not at all ("lock_free")."""


class VisitedCenter(Transport):
    """A transport whose center each worker visits, whatever the others do.

    `push_marks` are told of the parts of a push, see `knltrain.clocks.VISIT`.
    """

    push_marks: Marks = UNOBSERVED

    @abstractmethod
    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Apply ``rule`` to this worker's local and the center, whatever the others do.

        ``contribution`` (n,) float32 is this worker's own.

        - "first_come": no other worker touches a piece of the center at the same time.
        - "round_robin": workers visit one after the other, in rank order.
        - "lock_free": others may write what is being read, and increments may be lost.
        """

    def encode(self, rule: ExchangeRule, contribution: FloatArray) -> None:
        """Make a contribution ready for `push`, where it is sent in fewer bytes.

        The local takes back what is left out, if the ``rule`` says so.
        """

    @abstractmethod
    def push(
        self,
        rule: ExchangeRule,
        contribution: FloatArray,
        order: Order,
        waiting: Clock | None = None,
    ) -> None:
        """Let the center absorb this worker's contribution; another thread may call this.

        `encode` has made it ready.

        The time in which it waits for others is that of the clock ``waiting``.
        It must be the only thread of this worker that visits or pushes at the time.
        """

    def read_center(self) -> None:
        """Update ``center``, if it is a copy of one that lies elsewhere."""

    def read_kept(self) -> None:
        """Update ``kept``, if it is a copy."""

    @abstractmethod
    def await_turn(self) -> None:
        """Wait until it is this worker's turn to visit by "round_robin"."""
