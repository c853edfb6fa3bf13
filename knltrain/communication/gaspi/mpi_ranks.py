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

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from affinity.process.cgroup import available_bytes
from knltrain.communication.gaspi.ranks import (
    Bytes,
    Extent,
    Ranks,
    RemoteMemory,
    Room,
    Words,
    check_message,
)
from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.placed_window import place_window, room_bytes
from knltrain.communication.mpi.progress import Progress, mpi_errors
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import CollectiveError, ExchangeTimeout, SegmentError

_PUT_BYTES = 2**30
"""The most bytes of one put or message: counts have 32 bits in MPI before version 4."""

_ALIGNMENT_BYTES = 64
_GROUP_TAG = 5
_MESSAGE_TAG = 6
_TELL_TAG = 7

_LETTER_BYTES = 1024
"""The most bytes of a text that ranks tell each other, so that no rank waits to send it."""


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
        self._abandoned: list[Any] = []
        self._progress: Progress | None = None
        if progress and self.size > 1:
            self._progress = Progress(self._mpi, self._communicator)

    def tell(self, text: str, ranks: Sequence[int], timeout_seconds: float) -> dict[int, str]:
        """Tell each of some ranks a text, and hear theirs; those that are late are missing."""
        if not self._communicator:
            raise CollectiveError("these MPIRanks are closed: expected open ones; make new ones")
        letter, others = _letter(text), [rank for rank in ranks if rank != self.rank]
        told = {self.rank: _text(letter)}
        late: dict[int, tuple[Any, Bytes]] = {}
        sent: list[Any] = []
        status = self._mpi.Status()

        def look() -> bool:
            for rank, (request, came) in list(late.items()):
                if request.Test(status):
                    told[rank] = _text(came[: status.Get_count(self._mpi.BYTE)])
                    del late[rank]
            return not late and all(request.Test() for request in sent)

        try:
            with mpi_errors(self._mpi):
                for rank in others:
                    came = np.zeros(_LETTER_BYTES, np.uint8)
                    late[rank] = self._communicator.Irecv(self._raw(came), rank, _TELL_TAG), came
                for rank in others:
                    sent.append(self._communicator.Isend(self._raw(letter), rank, _TELL_TAG))
                nap_until(look, _nothing, _nothing, timeout_seconds)
        finally:  # MPI may still use the memory of these, which they hold
            self._abandoned += [request for request, _ in late.values()]
            self._abandoned += [each for each in sent if each != self._mpi.REQUEST_NULL]
        return told

    def room(self) -> Room:
        """Return the memory that is free; a window of several ranks of a node is in /dev/shm."""
        free = available_bytes()
        return Room(self._mpi.Get_processor_name(), free, min(free, room_bytes()))

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

    def allocate(self, extents: list[Extent]) -> WindowMemory:
        """Make a window (collective); raises SegmentError if there is no memory for it."""
        extent = extents[self.rank]
        try:
            window = self._mpi.Win.Allocate(
                _data_begin(extent) + extent.size_bytes, 1, comm=self._communicator
            )
        except self._mpi.Exception as error:
            raise SegmentError(
                f"rank {self.rank}: MPI has no window of {extent.size_bytes} bytes: {error}"
            ) from error
        return WindowMemory(self._mpi, window, self.rank, extents)

    def send(
        self, data: Bytes, rank: int, timeout_seconds: float, check: Callable[[], None]
    ) -> None:
        """Send ``data`` to another rank."""
        awaited = f"rank {rank} to receive {data.size} bytes"
        for piece in _pieces(data):
            with mpi_errors(self._mpi):
                request = self._communicator.Isend(self._raw(piece), rank, _MESSAGE_TAG)
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
            request = self._communicator.Irecv(self._raw(piece), source, _MESSAGE_TAG)
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

    def _raw(self, data: Bytes) -> list[Any]:
        return [data, self._mpi.BYTE]


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


def _letter(text: str) -> Bytes:
    """The bytes of a text; of a long one the begin, and a checksum of all."""
    data = text.encode()
    if len(data) > _LETTER_BYTES:
        data = data[: _LETTER_BYTES - 12] + f"... {zlib.crc32(data):08x}".encode()
    return np.frombuffer(data, np.uint8)


def _text(letter: Bytes) -> str:
    return letter.tobytes().decode(errors="replace")


def _nothing() -> None:
    """Check nothing: MPI itself ends a run whose processes are lost."""
