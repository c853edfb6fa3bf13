"""Waiting for the other workers: cheap when they are nearly there, patient when they are not.

A worker publishes how many barriers it has reached in its own word of the segment, and waits until
every other word has reached the same number. It looks again after some idle cycles, for about ten
microseconds; then gives its core away between two looks, for about a millisecond; then sleeps.
While it sleeps it looks after its peers: whether they still exist, and for how long they are late.
"""

from __future__ import annotations

import signal
import time
from typing import final

from knltrain.errors import ExchangeTimeout, KnltrainError, PeerLost, RunAborted
from knltrain.exchange import process
from knltrain.exchange.segment import Segment, lost_worker
from knltrain.exchange.words import ABORTED, publish, watch

_PAUSES = 300
_YIELDS = 2000
_SHORTEST_NAP_SECONDS = 50e-6
_LONGEST_NAP_SECONDS = 200e-6
_LIVENESS_SECONDS = 0.1
_LONGEST_LOOK_SECONDS = 1.0
"""No more than this counts as waiting between two looks: in the rest this process was stopped too,
as when a scheduler suspends a whole job."""

_SIGNALLED = 128


@final
class Barrier:
    """The place where the workers of a segment wait for each other, again and again."""

    def __init__(self, segment: Segment, rank: int, timeout_seconds: float) -> None:
        self._segment = segment
        self._rank = rank
        self._timeout_seconds = timeout_seconds
        self._workers = segment.workers
        self._sequences = segment.sequences
        self._abort_word = segment.abort_word
        self._sequence = int(self._sequences[rank])

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Return when every worker has called this as often as this one has.

        `timeout_seconds` replaces the barrier's own time limit for this once.

        Raises RunAborted or PeerLost if the run is being aborted, PeerLost if a missing worker's
        process is gone, ExchangeTimeout if one stays away longer than the time limit.
        """
        self._sequence += 1
        publish(self._sequences, self._rank, self._sequence)
        if self._watch(_PAUSES, _YIELDS) != self._workers:
            self._wait_asleep(timeout_seconds or self._timeout_seconds)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        code = int(self._abort_word[0])
        if code != 0:
            raise _abort_error(code)

    def _wait_asleep(self, timeout_seconds: float) -> None:
        nap_seconds = _SHORTEST_NAP_SECONDS
        late_seconds = checked_seconds = 0.0
        looked = time.monotonic()
        while (found := self._watch(1, 0)) != self._workers:
            if found == ABORTED:
                self.check()
            now = time.monotonic()
            late_seconds += min(now - looked, _LONGEST_LOOK_SECONDS)
            looked = now
            if late_seconds - checked_seconds >= _LIVENESS_SECONDS:
                checked_seconds = late_seconds
                self._check_peers_alive()
            if late_seconds >= timeout_seconds:
                raise self._timeout(timeout_seconds)
            time.sleep(nap_seconds)
            nap_seconds = min(2 * nap_seconds, _LONGEST_NAP_SECONDS)

    def _watch(self, pauses: int, yields: int) -> int:
        return watch(self._sequences, self._abort_word, self._sequence, pauses, yields)

    def _check_peers_alive(self) -> None:
        for rank in self._missing():
            holder = self._segment.holder(rank)
            if not holder or process.is_alive(holder):
                continue
            # It may have come here and then ended well between the two looks.
            if self._sequences[rank] < self._sequence:
                self._segment.abort(lost_worker(rank))
                ended = process.process_id(holder)
                raise PeerLost(f"worker {rank} is gone: its process {ended} has ended")

    def _timeout(self, timeout_seconds: float) -> ExchangeTimeout:
        absent = ", ".join(f"worker {rank} ({self._condition(rank)})" for rank in self._missing())
        return ExchangeTimeout(
            f"waited {timeout_seconds:g} s in vain for {absent}; if this worker can be so "
            "much slower than the others, raise exchange.timeout_seconds"
        )

    def _condition(self, rank: int) -> str:
        holder = self._segment.holder(rank)
        if not holder:
            return "has not joined"
        doing = "stopped" if process.is_stopped(holder) else "running"
        return f"process {process.process_id(holder)}, {doing}"

    def _missing(self) -> list[int]:
        return [rank for rank, reached in enumerate(self._sequences) if reached < self._sequence]


def _abort_error(code: int) -> KnltrainError:
    if code < 0:
        return PeerLost(f"worker {-1 - code} is gone: its process has ended")
    if code <= _SIGNALLED:
        return PeerLost("another worker failed: the run is being stopped")
    number = code - _SIGNALLED
    known = number in list(signal.Signals)
    name = signal.Signals(number).name if known else f"signal {number}"
    return RunAborted(f"the run was stopped by {name}", number)
