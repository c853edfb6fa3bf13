"""The seam behind which the center lives: how the vectors of the workers reach each other."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias

import numpy as np

from knltrain.exchange.rules.rule import ExchangeRule, SynchronousRule
from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray

Order: TypeAlias = Literal["first_come", "round_robin", "lock_free"]
"""How workers that come to the center alone keep out of each other's way: one at a time for each
piece of it, as they come; one after the other by rank; or not at all."""


WHOLE = slice(None)
"""All elements of the vectors."""


class Transport(Team):
    """One worker's way to the center and to its peers; also a ``Team``.

    The exchanges of all workers at once, and ``start_from``, are collective.
    """

    local: FloatArray
    """This worker's vector, shape (n,) float32; the transport's memory, which the worker fills."""

    spare: FloatArray
    """Another one, or (0,) where the transport was made without; peers can read it, too."""

    center: FloatArray
    """The vector common to all workers, shape (n,) float32; moved by exchanges only."""

    kept: FloatArray
    """What a rule keeps beside the center, shape (C − 1, n) float32."""

    @property
    def residual(self) -> FloatArray:
        """What exchanges have kept of contributions for the next ones, (n,), or (0,) if nothing."""
        return np.zeros(0, np.float32)

    @property
    def keeps_center(self) -> bool:
        """Whether this worker answers for the center and ``kept``: rank 0, or one per replica."""
        return self.rank == 0

    @abstractmethod
    def exchange(self, rule: SynchronousRule, part: slice = WHOLE) -> None:
        """Apply ``rule`` once to a part of the locals of all workers and the center."""

    @abstractmethod
    def exchange_beside(
        self, rule: SynchronousRule, part: slice = WHOLE, *, of_locals: bool = True
    ) -> None:
        """Apply ``rule`` to the spares in place of the locals; these may be read meanwhile.

        With ``of_locals`` the spares begin as copies of the locals, which nobody may write
        meanwhile. Can be called by another thread, as the only collective call of this worker.
        """

    @abstractmethod
    def swap(self) -> None:
        """Let spares be locals, and locals spares; all workers must do so between exchanges."""

    @abstractmethod
    def exchange_at_master(self, rule: SynchronousRule) -> None:
        """Apply ``rule`` once, as one where rank 0 moves the center.

        Contributions are made by the workers, into their spares, and added up along a binomial
        tree, which leaves parts of the sum in them; it is absorbed by rank 0 alone. For rules that
        follow the center without a look at their contribution.
        """

    @abstractmethod
    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Apply ``rule`` to this worker's local and the center, whatever the others do.

        ``contribution`` (n,) float32 is this worker's own. With "first_come" nobody else touches a
        piece of the center meanwhile, with "round_robin" nobody else is at it before rank r has
        come once more than rank r + 1, and as often as rank r − 1. With "lock_free" others may
        write what is read, and what one of them adds may be lost.
        """

    @abstractmethod
    def push(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Let the center absorb what this worker contributed; can be called by another thread.

        That thread must be the only one of this worker that visits or pushes meanwhile.
        """

    def read_center(self) -> None:
        """Bring ``center`` up to date, where it is a copy of one that lies elsewhere."""

    @abstractmethod
    def await_turn(self) -> None:
        """Wait until it is this worker's turn to visit by "round_robin"."""

    @abstractmethod
    def start_from(self, values: FloatArray | None = None) -> None:
        """Give the center and every local the values of rank 0 (collective); ``kept`` becomes 0.

        ``values`` has shape (n,) float32. Only rank 0's count; the others may pass None.
        """
