"""Exchanges of all workers at once."""

from __future__ import annotations

from abc import abstractmethod

from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.transports.transport import Transport

WHOLE = slice(None)
"""All elements of the vectors."""


class CollectiveTransport(Transport):
    """Through which all workers exchange at once: every exchange is collective."""

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
