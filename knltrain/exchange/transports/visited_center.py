"""The interface of transports whose workers visit the center one by one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias

from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray

Order: TypeAlias = Literal["first_come", "round_robin", "lock_free"]
"""How visits exclude each other: by a lock for each piece of the center ("first_come"), by turns in
rank order ("round_robin"), or not at all ("lock_free")."""


class VisitedCenter(Transport):
    """A transport whose center each worker visits, whatever the others do."""

    @abstractmethod
    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Apply ``rule`` to this worker's local and the center, whatever the others do.

        ``contribution`` (n,) float32 is this worker's own.

        - "first_come": no other worker touches a piece of the center at the same time.
        - "round_robin": workers visit one after the other, in rank order.
        - "lock_free": others may write what is being read, and increments may be lost.
        """

    @abstractmethod
    def push(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Let the center absorb this worker's contribution; another thread may call this.

        It must be the only thread of this worker that visits or pushes at the time.
        """

    def read_center(self) -> None:
        """Update ``center``, if it is a copy of one that lies elsewhere."""

    @abstractmethod
    def await_turn(self) -> None:
        """Wait until it is this worker's turn to visit by "round_robin"."""
