"""The training losses that the processes of a run tell each other by their heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from knltrain.communication.rendezvous.heartbeat import Figures
from knltrain.exchange.transports.board import LossBoard, LossSum


@final
class LossNews(Figures):
    """Tells others of the losses on the ``board`` of this process's workers, and adds theirs there.

    Each process is told of all that the other one knows and does not have from itself. So the first
    one, to which all are connected, passes on what it hears.
    """

    def __init__(self, board: LossBoard) -> None:
        self._board = board
        self._heard: dict[int, LossSum] = {}

    def for_rank(self, rank: int) -> LossSum:
        """Return the sum over the workers of this process, and over what others have told it."""
        found = self._board.here()
        for teller, told in list(self._heard.items()):
            found = found if teller == rank else found.plus(told)
        return found

    def from_rank(self, rank: int, figures: Sequence[float]) -> None:
        """Put what a process tells on the board."""
        if len(figures) != len(LossSum._fields):
            return
        self._heard[rank] = LossSum(*figures)
        others = LossSum()
        for told in self._heard.values():
            others = others.plus(told)
        self._board.publish_all(others)
