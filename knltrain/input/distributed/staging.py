"""A worker's batches whose pictures are fetched ahead, by a thread beside the steps."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from knltrain.communication.shared_memory.polling import nap_until
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.data.source import Pixels
from knltrain.errors import DataError
from knltrain.input.batch_feed import BatchFeed
from knltrain.input.batches_ahead import FIRST_SECONDS
from knltrain.input.distributed.records import DistributedRecords, Fetched

if TYPE_CHECKING:
    from knltrain.input.distributed.window import PartWindow

SLOTS: Final = 2
"""Batches whose pictures are there or under way."""

_END_SECONDS: Final = 5.0

_NOTHING: Final[tuple[int, Fetched | Exception]] = (-1, DataError("nothing was fetched"))


@final
class _Slot:
    """The pictures of one batch, `room` for those of one size, or why they could not be fetched."""

    def __init__(self) -> None:
        self.number = -1
        self.room: Pixels | None = None
        self.found = _NOTHING


@final
class StagedBatches(BatchFeed):
    """Fills the worker's one batch when a step asks for it, of pictures that were fetched before.

    They are those of the next `SLOTS` batches, read by MPI with a `window`. While it waits, a
    worker raises what `check` raises; after `limit_seconds` in vain it raises DataError; and
    PeerLost where a node is gone.
    """

    def __init__(
        self,
        batches: ShardedBatches,
        records: DistributedRecords,
        image_shape: tuple[int, int, int],
        check: Callable[[], None],
        limit_seconds: float,
        window: PartWindow | None = None,
    ) -> None:
        self._batches, self._records = batches, records
        self._batch = Batch.allocate(batches.images_per_worker, image_shape, batches.label_shape)
        self._check, self._limit_seconds = check, max(limit_seconds, FIRST_SECONDS)
        self._slots = [_Slot() for _ in range(SLOTS)]
        self._asked: queue.SimpleQueue[tuple[_Slot, int] | None] = queue.SimpleQueue()
        self._window = window
        self._thread = threading.Thread(target=self._fetch_all, name="data-staging", daemon=True)
        self._thread.start()

    def begin(self, step: int) -> None:
        """Fetch the first ones."""
        for number in range(SLOTS):
            self._ask(step * self._batches.iter_size + number)

    def take(self, step: int, number: int = 0) -> Batch:
        """Fill it, and let the pictures of another batch take the place of its own."""
        wanted = step * self._batches.iter_size + number
        slot = self._slots[wanted % SLOTS]
        self._ask(wanted)
        limit = self._limit_seconds
        if not nap_until(lambda: slot.found[0] == wanted, self._check, lambda: None, limit):
            raise DataError(f"waited {limit:g} s in vain for the pictures of step {step}")
        found = slot.found[1]
        if isinstance(found, Exception):
            raise found
        self._records.staged = found
        try:
            self._batches.fill(step, self._batch, number)
        finally:
            self._records.staged = None
        self._ask(wanted + SLOTS)
        return self._batch

    def close(self) -> None:
        """End the thread, after what it is fetching; with a window all ranks wait for that."""
        self._asked.put(None)
        if self._window is not None:
            self._thread.join(_END_SECONDS)
            if not self._thread.is_alive():
                self._window.close()

    def _ask(self, number: int) -> None:
        slot = self._slots[number % SLOTS]
        if slot.number != number:
            # What was found before is not to be taken again: its room is written over from now on.
            slot.number, slot.found = number, _NOTHING
            self._asked.put((slot, number))

    def _fetch_all(self) -> None:
        while (asked := self._asked.get()) is not None:
            slot, number = asked
            if slot.number != number:
                continue  # another one is wanted by now
            try:
                found: Fetched | Exception = self._fetch(slot, number)
            except Exception as error:  # noqa: BLE001  (whatever it is, the step must hear of it)
                found = error
            slot.found = number, found
        self._records.close()

    def _fetch(self, slot: _Slot, number: int) -> Fetched:
        rows = self._batches.rows_read(*divmod(number, self._batches.iter_size))
        if slot.room is not None and len(slot.room) != len(rows):
            slot.room = None
        found = self._records.fetch(rows, slot.room)
        slot.room = found.room
        return found
