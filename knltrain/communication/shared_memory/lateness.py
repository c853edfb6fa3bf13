"""The state of processes that a worker waits for: stopped, starved of cores, or at work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import final

from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.polling import Stillness

_LOOK_SECONDS = 0.25
_STARVED_SHARE = 0.25
"""A process is starved if it was ready but without a core for this share of the waiting time."""


@final
class Lateness:
    """Observes the processes of ranks that are late; ``holder(rank)`` is the identity of one."""

    def __init__(self, holder: Callable[[int], int]) -> None:
        self._holder = holder
        self._due = 0.0
        self._stillness: Stillness[int] = Stillness()
        self._delays: dict[int, float] = {}

    def look(self, ranks: Sequence[int]) -> None:
        """Observe the ranks' processes; may be called often, most calls return at once."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _LOOK_SECONDS
        self._stillness.look([rank for rank in ranks if self.standstill(rank) is not None])
        for rank in ranks:
            if rank not in self._delays:
                self._delays[rank] = self._delay_seconds(rank)

    def still_for(self, seconds: float) -> list[int]:
        """Return the ranks stopped for so long, not counting time when this process was stopped."""
        return self._stillness.still_for(seconds)

    def starved(self, ranks: Sequence[int], seconds: float) -> list[int]:
        """Return the ranks starved of cores in the ``seconds`` since the last call for them."""
        found = []
        for rank in ranks:
            delay_seconds = self._delay_seconds(rank)
            if delay_seconds - self._delays.get(rank, delay_seconds) >= _STARVED_SHARE * seconds:
                found.append(rank)
            self._delays[rank] = delay_seconds
        return found

    def standstill(self, rank: int) -> str | None:
        """Return how a rank's process is stopped; None if it is not, or has not come yet."""
        holder = self._holder(rank)
        return process_identity.standstill(holder) if holder else None

    def _delay_seconds(self, rank: int) -> float:
        holder = self._holder(rank)
        return process_identity.run_delay_seconds(holder) if holder else 0.0
