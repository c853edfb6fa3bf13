"""Ranks that are processes of an MPI run; their remote memory is an MPI window.

The code relies on these guarantees of the MPI standard (version 3.1, chapter 11):

- MPI_WIN_FLUSH completes all operations of this process on a rank, at that rank too (11.5.4). It
  separates data from their notification, since nothing else orders a put before an accumulate:
  accumulates are ordered only among themselves, at one location (11.7.2).
- Accumulates of one predefined type are atomic for each element (11.7.1). Words are stored by
  MPI_REPLACE, read by MPI_NO_OP and swapped by MPI_REPLACE. No other mixture is allowed without
  an info key ("same_op_no_op"). So words in the data are changed by swaps alone, additions too.
- In the unified memory model, which is required, loads after MPI_WIN_SYNC see all data that were
  complete at this process before (11.7).
- MPI_THREAD_MULTIPLE.

Progress of one-sided operations is not promised while the target is outside of MPI. Between
processes that share memory Intel MPI needs none; over its network providers a flush lasts until the
target calls MPI (seen with its TCP provider). So every rank has a thread that does now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from knltrain.communication.gaspi.ranks import (
    Bytes,
    Extent,
    Ranks,
    RemoteMemory,
    Words,
    check_message,
)
from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.placed_window import place_window
from knltrain.communication.mpi.progress import Progress, mpi_errors
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, SegmentError

_PUT_BYTES = 2**30
"""The most bytes of one put or message: counts have 32 bits in MPI before version 4."""

_ALIGNMENT_BYTES = 64
_GROUP_TAG = 5
_MESSAGE_TAG = 6
_MEETING_TAG = 7


@final
class MPIRanks(Ranks):
    """The processes of ``communicator``, by default of the whole MPI run (collective).

    With ``progress`` a thread progresses one-sided operations of others while this process
    computes. Some MPI libraries need none. Raises ConfigError if MPI cannot be used here.
    """

    def __init__(self, communicator: Any = None, progress: bool = True) -> None:
        self._mpi = load_mpi()
        self._communicator = (communicator or self._mpi.COMM_WORLD).Dup()
        self.rank, self.size = self._communicator.rank, self._communicator.size
        self._meetings = 0
        self._abandoned: list[Any] = []
        self._progress: Progress | None = None
        if progress and self.size > 1:
            self._progress = Progress(self._mpi, self._communicator)

    def meet(self, timeout_seconds: float) -> list[int]:
        """Wait for all ranks; return those that did not come in time."""
        self._meetings += 1
        tag = _MEETING_TAG + self._meetings % 2
        others = [rank for rank in range(self.size) if rank != self.rank]
        nothing = np.zeros(0, np.uint8)
        sent = [self._communicator.Isend(nothing, rank, tag) for rank in others]
        came = {rank: self._communicator.Irecv(nothing, rank, tag) for rank in others}
        nap_until(self._finished(came, sent), _nothing, _nothing, timeout_seconds)
        return list(came)

    def group(self, members: tuple[int, ...]) -> MPIRanks:
        """Make the processes of a group (collective among them)."""
        of_all = self._communicator.Get_group()
        chosen = of_all.Incl(members)
        communicator = self._communicator.Create_group(chosen, _GROUP_TAG)
        try:
            return MPIRanks(communicator, progress=False)
        finally:
            communicator.Free()
            chosen.Free()
            of_all.Free()

    def allocate(self, extent: Extent) -> WindowMemory:
        """Make a window (collective); raises SegmentError if there is no memory for it."""
        extents = [
            Extent(*each)
            for each in self._communicator.allgather((extent.size_bytes, extent.words))
        ]
        try:
            window = self._mpi.Win.Allocate(
                _data_begin(extent) + extent.size_bytes, 1, comm=self._communicator
            )
        except self._mpi.Exception as error:
            raise SegmentError(
                f"rank {self.rank}: MPI has no window of {extent.size_bytes} bytes: {error}"
            ) from error
        memory = WindowMemory(self._mpi, window, self.rank, extents)
        self._communicator.Barrier()  # no rank may write before all memory is zeroed
        return memory

    def send(
        self, data: Bytes, rank: int, timeout_seconds: float, check: Callable[[], None]
    ) -> None:
        """Send ``data`` to another rank."""
        awaited = f"rank {rank} to receive {data.size} bytes"
        for piece in _pieces(data):
            with mpi_errors(self._mpi):
                request = self._communicator.Isend([piece, self._mpi.BYTE], rank, _MESSAGE_TAG)
            self._finish(request, awaited, timeout_seconds, check)

    def receive(self, out: Bytes, timeout_seconds: float, check: Callable[[], None]) -> int:
        """Receive the next message to this rank; return who sent it."""
        source, status = self._mpi.ANY_SOURCE, self._mpi.Status()
        sent = self._communicator.Iprobe
        with mpi_errors(self._mpi):
            came = nap_until(
                lambda: sent(source, _MESSAGE_TAG, status), check, _nothing, timeout_seconds
            )
        if not came:
            raise ExchangeTimeout(f"waited {timeout_seconds:g} s in vain for a message of any rank")
        source = status.Get_source()
        check_message(source, status.Get_count(self._mpi.BYTE), min(out.size, _PUT_BYTES))
        for piece in _pieces(out):
            request = self._communicator.Irecv([piece, self._mpi.BYTE], source, _MESSAGE_TAG)
            self._finish(request, f"the message of rank {source}", timeout_seconds, check)
        return int(source)

    def _finish(
        self, request: Any, awaited: str, timeout_seconds: float, check: Callable[[], None]
    ) -> None:
        try:
            Completion(self._mpi, timeout_seconds, check).of([request], lambda: awaited)
        except BaseException:
            self._abandoned.append(request)  # MPI may still use its memory, which it holds
            raise

    def close(self) -> None:
        """End the thread, and free the communicator (collective)."""
        self.abandon()
        self._communicator.Free()

    def abandon(self) -> None:
        """End the thread."""
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.stop()

    def _finished(self, came: dict[int, Any], sent: list[Any]) -> Callable[[], bool]:
        def look() -> bool:
            for rank, request in list(came.items()):
                if request.Test():
                    del came[rank]
            return not came and all(request.Test() for request in sent)

        return look


@final
class WindowMemory(RemoteMemory):
    """A remote memory that is an MPI window: words at its begin, then data.

    Raises SegmentError unless the window has the unified memory model.
    """

    def __init__(self, mpi: Any, window: Any, rank: int, extents: list[Extent]) -> None:
        if window.Get_attr(mpi.WIN_MODEL) != mpi.WIN_UNIFIED:
            raise SegmentError(
                "this MPI library keeps public and private copies of windows apart: expected the "
                "unified memory model, which others, such as Intel MPI (impi-rt), have"
            )
        self._mpi, self._window, self._rank = mpi, window, rank
        self._word = mpi.INT64_T
        self.extents = extents
        memory = memoryview(window.tomemory())
        place_window(memory, "the memory that neighbours write to")
        whole = np.frombuffer(memory, np.uint8)
        whole[:] = 0
        self.memory = whole[_data_begin(extents[rank]) :]
        window.Lock_all(mpi.MODE_NOCHECK)
        window.Sync()

    def put(self, data: Bytes, rank: int, offset_bytes: int) -> None:
        """Start to copy ``data`` to ``rank``."""
        target = _data_begin(self.extents[rank]) + offset_bytes
        for piece in _pieces(data):
            self._window.Put([piece, self._mpi.BYTE], rank, [target, piece.size, self._mpi.BYTE])
            target += piece.size

    def get(self, out: Bytes, rank: int, offset_bytes: int) -> None:
        """Start to copy from ``rank`` to ``out``."""
        target = _data_begin(self.extents[rank]) + offset_bytes
        for piece in _pieces(out):
            self._window.Get([piece, self._mpi.BYTE], rank, [target, piece.size, self._mpi.BYTE])
            target += piece.size

    def compare_swap(self, rank: int, offset_bytes: int, expected: int, value: int) -> int:
        """Set an int64 of ``rank`` if it is as ``expected``; return what it was."""
        given, like = np.array([value], np.int64), np.array([expected], np.int64)
        before = np.zeros(1, np.int64)
        place = _data_begin(self.extents[rank]) + offset_bytes
        self._window.Compare_and_swap(
            [given, self._word], [like, self._word], [before, self._word], rank, place
        )
        self._window.Flush(rank)
        return int(before[0])

    def store(self, rank: int, word: int, value: int) -> None:
        """Write a word of ``rank``, ordered after all earlier loads of this process."""
        self._window.Sync()
        origin = np.array([value], np.int64)
        self._window.Accumulate([origin, self._word], rank, self._place(word), self._mpi.REPLACE)
        self._window.Flush(rank)

    def complete(self, rank: int) -> None:
        """Flush: return when all that was put to ``rank`` is there."""
        self._window.Flush(rank)

    def read_words(self, begin: int, out: Words) -> None:
        """Copy own words; data that were complete before them are visible afterwards."""
        self._fetch(np.zeros_like(out), begin, out, self._mpi.NO_OP)
        self._window.Sync()

    def swap_word(self, word: int, value: int) -> int:
        """Write an own word, and return its old value."""
        before = np.zeros(1, np.int64)
        self._fetch(np.array([value], np.int64), word, before, self._mpi.REPLACE)
        self._window.Sync()
        return int(before[0])

    def free(self) -> None:
        """Free the window (collective)."""
        self.memory = np.zeros(0, np.uint8)
        self._window.Unlock_all()
        self._window.Free()

    def _fetch(self, origin: Words, begin: int, out: Words, operation: Any) -> None:
        self._window.Get_accumulate(
            [origin, self._word],
            [out, self._word],
            self._rank,
            self._place(begin, out.size),
            operation,
        )
        self._window.Flush(self._rank)

    def _place(self, word: int, count: int = 1) -> list[Any]:
        return [8 * word, count, self._word]


def _data_begin(extent: Extent) -> int:
    return -(-8 * extent.words // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _pieces(data: Bytes) -> Iterator[Bytes]:
    """Cut data into pieces; of none there is one."""
    for begin in range(0, max(1, data.size), _PUT_BYTES):
        yield data[begin : begin + _PUT_BYTES]


def _nothing() -> None:
    """Check nothing: MPI itself ends a run whose processes are lost."""
