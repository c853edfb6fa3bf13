"""How a worker waits for others once it has looked for long: asleep, but with an eye on its peers.

It sleeps between two looks, and now and then asks whether those it waits for still exist, whether
the run is being aborted, and for how long they are late.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import final

from knltrain.errors import ExchangeTimeout, KnltrainError, PeerLost, RunAborted
from knltrain.exchange import process
from knltrain.exchange.segment import Segment, lost_worker

_SHORTEST_NAP_SECONDS = 50e-6
_LONGEST_NAP_SECONDS = 200e-6
_LIVENESS_SECONDS = 0.1
_LONGEST_LOOK_SECONDS = 1.0
"""No more than this counts as waiting between two looks: in the rest this process was stopped too,
as when a scheduler suspends a whole job."""

_SIGNALLED = 128


@final
class Patience:
    """Waits for what other workers of a segment are to do, for ``timeout_seconds`` at most.

    ``names`` are what its ranks are called in messages: those of the run, where not all of it share
    the segment.
    """

    def __init__(
        self, segment: Segment, timeout_seconds: float, names: Sequence[int] | None = None
    ) -> None:
        self._segment = segment
        self._names = range(segment.workers) if names is None else names
        self._abort_word = segment.abort_word
        self._timeout_seconds = timeout_seconds

    def wait(
        self,
        look: Callable[[], bool],
        awaited: Callable[[], list[int]],
        timeout_seconds: float | None = None,
    ) -> None:
        """Return when ``look()`` is true; ``awaited()`` are the ranks whose doing it needs.

        ``timeout_seconds`` is a longer time limit for this once.
        Raises RunAborted or PeerLost if the run is being aborted, PeerLost if an awaited process is
        gone, ExchangeTimeout if one lets wait longer than the time limit.
        """
        limit_seconds = max(timeout_seconds or 0.0, self._timeout_seconds)
        if not nap_until(look, self.check, lambda: self._check_alive(awaited), limit_seconds):
            raise self._timeout(limit_seconds, awaited())

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        code = int(self._abort_word[0])
        if code != 0:
            raise _abort_error(code)

    def _check_alive(self, awaited: Callable[[], list[int]]) -> None:
        for rank in awaited():
            holder = self._segment.holder(rank)
            if not holder or process.is_alive(holder):
                continue
            # It may have done its part and then ended well between the two looks.
            if rank in awaited():
                self._segment.abort(lost_worker(self._names[rank]))
                ended, name = process.process_id(holder), self._names[rank]
                raise PeerLost(f"worker {name} is gone: its process {ended} has ended")

    def _timeout(self, seconds: float, ranks: list[int]) -> ExchangeTimeout:
        absent = ", ".join(
            f"worker {self._names[rank]} ({self._condition(rank)})" for rank in ranks
        )
        return ExchangeTimeout(
            f"waited {seconds:g} s in vain for {absent}; if this worker can be so much slower than "
            "the others, raise exchange.timeout_seconds"
        )

    def _condition(self, rank: int) -> str:
        holder = self._segment.holder(rank)
        if not holder:
            return "has not joined"
        doing = "stopped" if process.is_stopped(holder) else "running"
        return f"process {process.process_id(holder)}, {doing}"


def nap_until(
    look: Callable[[], bool],
    check: Callable[[], None],
    check_alive: Callable[[], None],
    limit_seconds: float,
) -> bool:
    """Look and sleep in turn until ``look()`` is true; tell whether it was before the time limit.

    ``check`` is called before every nap, ``check_alive``, which may cost more, about ten times a
    second; both may raise.
    """
    nap_seconds = _SHORTEST_NAP_SECONDS
    late_seconds = checked_seconds = 0.0
    looked = time.monotonic()
    while not look():
        check()
        now = time.monotonic()
        late_seconds += min(now - looked, _LONGEST_LOOK_SECONDS)
        looked = now
        if late_seconds - checked_seconds >= _LIVENESS_SECONDS:
            checked_seconds = late_seconds
            check_alive()
        if late_seconds >= limit_seconds:
            return False
        time.sleep(nap_seconds)
        nap_seconds = min(2 * nap_seconds, _LONGEST_NAP_SECONDS)
    return True


def _abort_error(code: int) -> KnltrainError:
    if code < 0:
        return PeerLost(f"worker {-1 - code} is gone: its process has ended")
    if code <= _SIGNALLED:
        return PeerLost("another worker failed: the run is being stopped")
    number = code - _SIGNALLED
    known = number in list(signal.Signals)
    name = signal.Signals(number).name if known else f"signal {number}"
    return RunAborted(f"the run was stopped by {name}", number)
