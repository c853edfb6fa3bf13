"""How a worker waits for others after busy-waiting: it sleeps, and checks on its peers.

Between two sleeps it checks whether the awaited processes still run, whether the run is being
aborted, and how late they are. A stopped or frozen process has only the run's time limit, even if
others may take longer. A process that is starved of cores has more time.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import final

from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.lateness import Lateness
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, KnltrainError, PeerLost, RunAborted
from knltrain.exchange.transports.segment import Segment, lost_worker

_MORE_LIMITS = 3
"""How often the time limit starts anew for processes that are starved of cores."""

_SIGNALLED = 128


@final
class PeerWait:
    """Waits for other workers of a segment, for ``timeout_seconds`` at most.

    ``names`` are the names of its ranks in errors: ranks of the run if it has several segments.
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
        """Return when ``look()`` is true; ``awaited()`` are the ranks that it depends on.

        ``timeout_seconds`` is a longer time limit for this call.
        Raises RunAborted or PeerLost if the run is being aborted, PeerLost if an awaited process is
        gone, ExchangeTimeout if one is later than the time limit, or is stopped for longer than the
        usual limit.
        """
        late = Lateness(self._segment.holder)
        waited_seconds, limit_seconds = 0.0, max(timeout_seconds or 0.0, self._timeout_seconds)
        starved: list[int] = []
        for _ in range(1 + _MORE_LIMITS):
            if nap_until(look, self.check, lambda: self._look_after(awaited, late), limit_seconds):
                return
            waited_seconds += limit_seconds
            starved = late.starved(awaited(), limit_seconds)
            if not starved:
                break
            limit_seconds = self._timeout_seconds
        raise self._timeout(waited_seconds, awaited(), late, starved)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        code = int(self._abort_word[0])
        if code != 0:
            raise _abort_error(code)

    def _look_after(self, awaited: Callable[[], list[int]], late: Lateness) -> None:
        self._check_alive(awaited)
        late.look(awaited())
        if still := late.still_for(self._timeout_seconds):
            raise self._timeout(self._timeout_seconds, still, late)

    def _check_alive(self, awaited: Callable[[], list[int]]) -> None:
        for rank in awaited():
            holder = self._segment.holder(rank)
            if not holder or process_identity.is_alive(holder):
                continue
            # Look again: the process may have done its part and then ended well in between.
            if rank in awaited():
                self._segment.abort(lost_worker(self._names[rank]))
                ended, name = process_identity.process_id(holder), self._names[rank]
                raise PeerLost(f"worker {name} is gone: its process {ended} has ended")

    def _timeout(
        self, seconds: float, ranks: list[int], late: Lateness, starved: Sequence[int] = ()
    ) -> ExchangeTimeout:
        stills = {rank: how for rank in ranks if (how := late.standstill(rank)) is not None}
        still = ", ".join(f"{self._called(rank)} is {how}" for rank, how in stills.items())
        absent = ", ".join(
            self._called(rank, ", starved of cores" if rank in starved else ", running")
            for rank in ranks
            if rank not in stills
        )
        if not still:
            return ExchangeTimeout(
                f"waited {seconds:g} s in vain for {absent}; if this worker can be so much slower "
                "than the others, raise exchange.timeout_seconds"
            )
        others = f", and for {absent}" if absent else ""
        return ExchangeTimeout(
            f"{still}: waited {seconds:g} s in vain for it{others}; if workers are to be stopped "
            "for so long, stop all of them, or raise exchange.timeout_seconds"
        )

    def _called(self, rank: int, doing: str = "") -> str:
        holder = self._segment.holder(rank)
        what = f"{process_identity.named(holder)}{doing}" if holder else "has not joined"
        return f"worker {self._names[rank]} ({what})"


def _abort_error(code: int) -> KnltrainError:
    if code < 0:
        return PeerLost(f"worker {-1 - code} is gone: its process has ended")
    if code <= _SIGNALLED:
        return PeerLost("another worker failed: the run is being stopped")
    number = code - _SIGNALLED
    known = number in list(signal.Signals)
    name = signal.Signals(number).name if known else f"signal {number}"
    return RunAborted(f"the run was stopped by {name}", number)
