"""The parts of all nodes as one MPI window, where a run has MPI: pictures are read by MPI_Get.

The window lies over the memory in which a node's processes have its part, and which none can write.
The node's first rank exposes it; its other ranks attach nothing. All ranks lock it once, for
reading. Each wait is for requests, with a deadline, which MPI_Win_flush has not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.communication_cores import made_there
from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.progress import Progress, mpi_errors
from knltrain.data.source import Rows
from knltrain.errors import KnltrainError, PeerLost
from knltrain.input.batches_ahead import FIRST_SECONDS
from knltrain.input.distributed.parts import Division, Part

_LEAVE_SECONDS: Final = 5.0
_NONE: Final = -1
"""In place of an offset: a rank does not expose such an array."""


@final
class PartWindow:
    """All nodes' parts of both halves, as the ranks of ``mpi``.COMM_WORLD see them (collective).

    `parts` are those of this rank's `node`, divided as `divisions` say; they lie in one mapping.
    Several threads may read at once. `check` is called now and then during waiting, and may raise.
    Raises ExchangeTimeout where ranks do not come, and PeerLost if MPI fails.
    """

    def __init__(
        self,
        mpi: Any,
        node: int,
        parts: Sequence[Part],
        divisions: Sequence[Division],
        limit_seconds: float,
        check: Callable[[], None],
    ) -> None:
        self._mpi, self.divisions = mpi, divisions
        self._completion = Completion(mpi, limit_seconds, check)
        self._arrays = [each for part in parts for each in (part.content, part.begins)]
        with mpi_errors(mpi):
            self._open(node)

    def _open(self, node: int) -> None:
        mpi = self._mpi
        self._group, request = mpi.COMM_WORLD.Idup()
        self._wait([request], FIRST_SECONDS)
        nodes = self._gathered(np.array([node]))[:, 0]
        self._holders = [int(np.argmax(nodes == each)) for each in range(self.divisions[0].nodes)]
        holds = self._holders[node] == self._group.rank
        memory, offsets = self._span() if holds else (None, [_NONE] * len(self._arrays))
        self._offsets = self._gathered(np.array(offsets))
        self._window = mpi.Win.Create(memory, 1, comm=self._group)
        self._window.Lock_all(mpi.MODE_NOCHECK)
        # Over a network a target has to call MPI for others to read.
        self._progress = made_there(lambda: Progress(mpi, self._group)) if holds else None

    def client(self, half: int, node: int, record_bytes: int) -> WindowClient:
        """A reader of a node's part of a half; its records have one size if `record_bytes` says it.

        Each thread needs its own.
        """
        first = self.divisions[half].part(node).start
        offsets: list[int] = self._offsets[self._holders[node], 2 * half : 2 * half + 2].tolist()
        return WindowClient(self, self._holders[node], first, offsets, record_bytes)

    def get(self, rank: int, places: Sequence[tuple[int, memoryview]]) -> None:
        """Copy from so many places of a rank: an offset in bytes, and where to. Raises PeerLost."""
        byte = self._mpi.BYTE
        with mpi_errors(self._mpi):
            requests = [
                self._window.Rget([out, byte], rank, (offset, len(out), byte))
                for offset, out in places
                if len(out)
            ]
        self._wait(requests)

    def close(self) -> None:
        """Free the window if all others do so in a few seconds; no thread may read any more.

        Else the end of the process frees it: no error ends a run that has finished.
        """
        with suppress(KnltrainError), mpi_errors(self._mpi):
            self._wait([self._group.Ibarrier()], _LEAVE_SECONDS)
            # A rank that has not waited for this one any more never frees it.
            freeing = threading.Thread(target=self._free, name="MPI window", daemon=True)
            freeing.start()
            freeing.join(_LEAVE_SECONDS)
        if self._progress is not None:
            with suppress(PeerLost):
                self._progress.stop()

    def _free(self) -> None:
        with suppress(PeerLost), mpi_errors(self._mpi):
            self._window.Unlock_all()
            self._window.Free()

    def _wait(self, requests: Sequence[Any], limit_seconds: float | None = None) -> None:
        self._completion.of(requests, lambda: "other nodes' parts of the data", limit_seconds)

    def _gathered(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        found = np.zeros((self._group.size, len(words)), np.int64)
        self._wait([self._group.Iallgather(words, found)], FIRST_SECONDS)
        return found

    def _span(self) -> tuple[Any, list[int]]:
        """The memory from the first array to the last one, and the offset of each there."""
        held = [each for each in self._arrays if each is not None and each.size]
        begin = min((each.ctypes.data for each in held), default=0)
        end = max((each.ctypes.data + each.nbytes for each in held), default=0)
        offsets = [_NONE if each is None else each.ctypes.data - begin for each in self._arrays]
        return self._mpi.buffer.fromaddress(begin, end - begin), offsets


@final
class WindowClient:
    """Reads pictures of a node's part as `PartClient` does, of the memory of a `rank`."""

    def __init__(
        self, window: PartWindow, rank: int, first: int, offsets: list[int], record_bytes: int
    ) -> None:
        self._window, self._rank, self._first = window, rank, first
        (self._content, self._begins), self._record_bytes = offsets, record_bytes
        self._places: npt.NDArray[np.int64] = np.zeros((0, 2), np.int64)

    def ask(self, half: int, rows: Rows) -> None:  # noqa: ARG002  (it is that of the client)
        """Note the pictures `rows` (n,); with sizes of their own, these are read at once."""
        numbers = rows - self._first
        if self._record_bytes:
            begins = numbers * self._record_bytes
            self._places = np.stack([begins, begins + self._record_bytes], axis=1)
            return
        self._places = np.zeros((len(rows), 2), np.int64)
        outs = [line.data.cast("B") for line in self._places]
        at = (self._begins + 8 * numbers).tolist()
        self._window.get(self._rank, list(zip(at, outs, strict=True)))

    def sizes(self, count: int) -> list[int]:  # noqa: ARG002
        """The sizes in bytes of the records."""
        found: list[int] = np.diff(self._places, axis=1)[:, 0].tolist()
        return found

    def receive(self, buffers: Sequence[memoryview]) -> None:
        """Read the records, each to its buffer of that size."""
        at = (self._content + self._places[:, 0]).tolist()
        self._window.get(self._rank, list(zip(at, buffers, strict=True)))

    def close(self) -> None:
        """Nothing: the window stays."""
