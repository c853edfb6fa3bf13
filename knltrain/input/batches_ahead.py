"""A worker's side of its ring: it takes batches that the data pool has made ahead."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final, final

from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.data.dataset import Batch
from knltrain.errors import SIGNALLED, DataError, KnltrainError, PeerLost, RunAborted
from knltrain.input.batch_feed import BatchFeed
from knltrain.input.batch_ring import BatchRing

FIRST_SECONDS: Final = 1800.0
"""Time limit of the first batch: before it the pool opens the data set, and may compile kernels."""


@final
class BatchesAhead(BatchFeed):
    """Takes the batches of ring `worker`, each as a view of its slot.

    A step has `iter_size` batches. While it waits, a worker raises what `check` raises, and

    - RunAborted or PeerLost within about a millisecond after the run was aborted,
    - PeerLost within about a tenth of a second after the end of the pool's process,
    - DataError if a batch does not come within `limit_seconds`.
    """

    def __init__(
        self,
        ring: BatchRing,
        worker: int,
        iter_size: int,
        check: Callable[[], None],
        limit_seconds: float,
        images: int | None = None,
    ) -> None:
        self._ring, self._worker, self._iter_size, self._images = ring, worker, iter_size, images
        self._check_team, self._limit_seconds = check, limit_seconds
        self._taken = -1
        self._has_taken = False
        ring.claim(worker)

    def begin(self, step: int) -> None:
        """Let the pool begin with the batches of `step`."""
        self._ring.want(self._worker, step * self._iter_size)

    def take(self, step: int, number: int = 0) -> Batch:
        """Wait until the batch is there; it may be taken again before it is given back."""
        taken = step * self._iter_size + number
        ring, worker = self._ring, self._worker
        if not ring.is_ready(worker, taken):
            limit = self._limit_seconds if self._has_taken else FIRST_SECONDS
            limit = max(limit, self._limit_seconds)
            if not nap_until(
                lambda: ring.is_ready(worker, taken), self._check, self._check_pool, limit
            ):
                raise self._late(step, limit)
        self._taken, self._has_taken = taken, True
        return self._batch(taken)

    def following(self, step: int, number: int = 0) -> Batch | None:
        """The next slot, if the pool has filled it."""
        after = step * self._iter_size + number + 1
        return self._batch(after) if self._ring.is_ready(self._worker, after) else None

    def _batch(self, number: int) -> Batch:
        batch = self._ring.batch(self._worker, number)
        return batch if self._images is None else batch.first(self._images)

    def give_back(self) -> None:
        """Let the pool write over the slot."""
        self._ring.want(self._worker, self._taken + 1)

    def close(self) -> None:
        """Leave the ring."""
        if self._ring.fd >= 0:
            self._ring.leave(self._worker)
            self._ring.close()

    def _check(self) -> None:
        self._check_team()
        if code := self._ring.abort_code:
            raise _abort_error(code)

    def _check_pool(self) -> None:
        pool = self._ring.pool
        if pool and not process_identity.is_alive(pool):
            ended = process_identity.process_id(pool)
            raise PeerLost(f"the data pool is gone: its process {ended} has ended")

    def _late(self, step: int, limit_seconds: float) -> DataError:
        pool = self._ring.pool
        still = process_identity.standstill(pool) or "running" if pool else "not there yet"
        name = process_identity.named(pool) if pool else "its process"
        return DataError(
            f"waited {limit_seconds:g} s in vain for the images of step {step}: the data pool "
            f"({name}, {still}) may be reading from a disk that does not answer; if images may "
            "take so long, raise exchange.timeout_seconds"
        )


def _abort_error(code: int) -> KnltrainError:
    if code <= SIGNALLED:
        return PeerLost("a worker or the data pool failed: the run is being stopped")
    number = code - SIGNALLED
    known = number in list(signal.Signals)
    name = signal.Signals(number).name if known else f"signal {number}"
    return RunAborted(f"the run was stopped by {name}", number)
