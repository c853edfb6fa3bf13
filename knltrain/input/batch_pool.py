"""The data pool: threads of one process of a node, which fill its workers' batches ahead."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeAlias, final

from knltrain.data.dataset import Batch
from knltrain.input.batch_ring import CLOSED, BatchRing

Fill: TypeAlias = Callable[[int, Batch], None]
"""Writes a worker's batch of that number to the slot."""

_NAP_SECONDS: Final = 200e-6
_LOOK_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 2.0
"""How long threads may take to end once no more batches are needed."""


@final
class BatchPool:
    """Fills the rings of workers by so many `threads`, until all workers have left, or an abort.

    `fills` has a function for each worker, called by several threads at once. The batch that its
    worker will take soonest comes first, so that no worker starves. `entered` is entered by each
    thread with its number, as it binds itself to a core. After batch `last`, if given, there are no
    more. Threads that do not end within `patience_seconds` are left to the end of the process.
    """

    def __init__(
        self,
        ring: BatchRing,
        fills: Sequence[Fill],
        threads: int,
        entered: Callable[[int], AbstractContextManager[None]],
        last: int | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.failed_at: tuple[int, int] | None = None
        """Worker and number of the batch that could not be filled."""
        self._ring, self._fills, self._threads = ring, fills, threads
        self._entered, self._last = entered, last
        self._patience_seconds = patience_seconds
        self._next = [0] * len(fills)
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._ended = False

    def run(self) -> None:
        """Fill batches until the end; raises the first error of a thread."""
        self._ring.serve()
        threads = [
            threading.Thread(target=self._work, args=(number,), name=f"data-{number}", daemon=True)
            for number in range(self._threads)
        ]
        for thread in threads:
            thread.start()
        ended_at = math.inf
        while any(thread.is_alive() for thread in threads) and self._error is None:
            if self._is_over():
                # A thread may read from a disk that does not answer.
                ended_at = min(ended_at, time.monotonic())
                if time.monotonic() - ended_at > self._patience_seconds:
                    break
            time.sleep(_LOOK_SECONDS)
        if self._error is not None:
            raise self._error

    def _work(self, number: int) -> None:
        try:
            with self._entered(number):
                while not self._ended:
                    self._fill_one()
        except BaseException as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
            self._take_error(error, None)

    def _fill_one(self) -> None:
        with self._lock:
            found = self._soonest()
        if found is None:
            time.sleep(_NAP_SECONDS)
            return
        worker, number = found
        try:
            self._fills[worker](number, self._ring.batch(worker, number))
        except BaseException as error:
            self._take_error(error, found)
            raise
        self._ring.put(worker, number)

    def _take_error(self, error: BaseException, failed_at: tuple[int, int] | None) -> None:
        """Keep the first error of all threads, and the batch that it belongs to."""
        with self._lock:
            if self._error is None:
                self._error, self.failed_at = error, failed_at
        self._ended = True

    def _is_over(self) -> bool:
        """Whether the run is aborted, or all workers have left."""
        ring = self._ring
        if ring.abort_code or all(ring.wanted(each) == CLOSED for each in range(ring.workers)):
            self._ended = True
        return self._ended

    def _soonest(self) -> tuple[int, int] | None:
        """Worker and number of the batch to fill next; None if no slot is free."""
        if self._is_over():
            return None
        ring = self._ring
        wanted = [ring.wanted(worker) for worker in range(ring.workers)]
        found, least = None, ring.slots
        for worker, first in enumerate(wanted):
            if first is None or first == CLOSED:
                continue
            number = self._next[worker] = max(self._next[worker], first)
            is_there = self._last is None or number <= self._last
            if is_there and number - first < least:
                found, least = worker, number - first
        if found is None:
            return None
        number = self._next[found]
        self._next[found] += 1
        return found, number
