"""The barrier of the workers of a segment: busy-waits at first, then yields, then sleeps.

A worker publishes in its own word of the segment how many barriers it has reached, and waits until
every other word has the same number. It polls with pauses for about ten microseconds, then yields
its core between polls for about a millisecond, then sleeps (`peer_wait`).
"""

from __future__ import annotations

from typing import final

from knltrain.communication.shared_memory.atomics import publish, watch
from knltrain.exchange.transports.peer_wait import PeerWait
from knltrain.exchange.transports.segment import Segment

_PAUSES = 300
_YIELDS = 2000


@final
class Barrier:
    """A reusable barrier of the workers of a segment."""

    def __init__(self, segment: Segment, rank: int, peer_wait: PeerWait) -> None:
        self._rank = rank
        self._peer_wait = peer_wait
        self._workers = segment.workers
        self._sequences = segment.sequences
        self._abort_word = segment.abort_word
        self._sequence = int(self._sequences[rank])

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Return when every worker has called this as often as this one.

        ``timeout_seconds`` is a longer time limit for this call. Raises what `PeerWait.wait` does.
        """
        self._sequence += 1
        publish(self._sequences, self._rank, self._sequence)
        if not self._all_are_here(_PAUSES, _YIELDS):
            self._peer_wait.wait(self._all_are_here, self._missing, timeout_seconds)

    def _all_are_here(self, pauses: int = 1, yields: int = 0) -> bool:
        found = watch(self._sequences, self._abort_word, self._sequence, pauses, yields)
        return found == self._workers

    def _missing(self) -> list[int]:
        return [rank for rank, reached in enumerate(self._sequences) if reached < self._sequence]
