"""A center that workers visit, each when it comes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias

from knltrain.exchange.rules.rule import ExchangeRule
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray

Order: TypeAlias = Literal["first_come", "round_robin", "lock_free"]
"""How workers that come to the center alone keep out of each other's way: one at a time for each
piece of it, as they come; one after the other by rank; or not at all."""


class VisitedCenter(Transport):
    """Which each worker visits alone, whatever the others do."""

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
