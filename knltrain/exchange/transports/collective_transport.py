"""Exchanges of all workers at once."""

from __future__ import annotations

from abc import abstractmethod

from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.transports.transport import Transport

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
