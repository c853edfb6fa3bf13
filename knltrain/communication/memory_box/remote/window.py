"""The MPI window under a box: atomics on its words, and transfers of its elements.

All waiting is for requests, with a deadline. MPI_Win_flush has no deadline, so it is called only
when an owner has just answered, which shows that it runs and progresses MPI.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.memory_box.remote.layout import DATA_BEGIN, WORD_BYTES, whole_pages
from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.placed_window import place_window, room_bytes
from knltrain.communication.mpi.progress import Progress, mpi_errors
from knltrain.communication.mpi.runtime import load_mpi
from knltrain.errors import ExchangeTimeout, KnltrainError, PeerLost, SegmentError

AnyArray = npt.NDArray[Any]

_PIECE_BYTES = 2**22
"""The piece size of long transfers: while one piece is in transit the owner adds up another."""


@final
class Window:
    """``bytes_`` of memory for shards at each of ``servers``, ranks of ``comm`` (collective).

    Methods number the servers from 0, in the order given. ``check`` is called now and then during
    waiting, and may raise.
    """

    def __init__(
        self,
        comm: Any,
        bytes_: int,
        servers: Sequence[int] | None,
        timeout_seconds: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._mpi = mpi = load_mpi()
        self.timeout_seconds = timeout_seconds
        self.ranks = _checked(comm, servers)
        self.bytes = DATA_BEGIN + whole_pages(bytes_)
        self._failure: KnltrainError | None = None
        self._completion, self.check_run = Completion(mpi, timeout_seconds, check), check
        self._group, request = comm.Idup()
        self._complete([request], "the other ranks to make the box, too")
        self.rank = self._group.rank
        self._agree()
        serves = self.rank in self.ranks
        self._window = mpi.Win.Allocate(self.bytes if serves else 0, 1, comm=self._group)
        if serves:
            memory = memoryview(self._window.tomemory())
            place_window(memory, "the center's shard")
            np.frombuffer(memory, np.uint8).fill(0)
        self._window.Lock_all(mpi.MODE_NOCHECK)
        self._window.Sync()
        self.is_open = True
        self._progress = Progress(mpi, self._group) if serves else None
        self.meet()

    def add(self, changes: Iterable[tuple[int, int, int]]) -> list[int]:
        """Add to words atomically, (server, word, value) each; return their old values."""
        return [int(found[0]) for found in self._change(changes, self._mpi.SUM)]

    def replace(self, changes: Iterable[tuple[int, int, int]]) -> None:
        """Set words, (server, word, value) each."""
        self._change(changes, self._mpi.REPLACE)

    def words(self, server: int, first: int, count: int = 1) -> list[int]:
        """Return words of a server."""
        found = np.zeros(count, np.int64)
        self._await([server], [self.ask(server, first, found)])
        return [int(word) for word in found]

    def ask(self, server: int, first: int, out: AnyArray) -> Any:
        """Begin to read words of a server; return the request."""
        return self._ask(server, first, out, out, self._mpi.NO_OP)

    def replace_and_read(
        self, change: tuple[int, int, int], parts: Iterable[tuple[int, int, AnyArray]]
    ) -> None:
        """Set a word, and then read it and others, (server, word, out) each.

        The change and the reads at the same server take one round trip together: operations of a
        rank at one server keep their order (MPI 3.1, 11.7.2). Reads at others take a second one.
        """
        (server, word, value), parts = change, list(parts)
        given, before = np.array([value]), np.zeros(1, np.int64)
        requests = [self._ask(server, word, given, before, self._mpi.REPLACE)]
        requests += [self.ask(*part) for part in parts if part[0] == server]
        self._await([server], requests)
        if elsewhere := [part for part in parts if part[0] != server]:
            self._await([part[0] for part in elsewhere], [self.ask(*part) for part in elsewhere])

    def get(self, server: int, offset: int, out: AnyArray) -> list[Any]:
        """Begin to read elements at ``offset`` bytes of a server; return the requests."""
        with self._begun():
            return [
                self._window.Rget(self._spec(part), self.ranks[server], self._target(at, part))
                for at, part in _pieces(offset, out)
            ]

    def put(self, server: int, offset: int, values: AnyArray) -> list[Any]:
        """Begin to write; complete when the requests are and `settle` has returned."""
        with self._begun():
            return [
                self._window.Rput(self._spec(part), self.ranks[server], self._target(at, part))
                for at, part in _pieces(offset, values)
            ]

    def accumulate(self, server: int, offset: int, values: AnyArray) -> list[Any]:
        """Begin to add, each element atomically; complete as `put` is."""
        with self._begun():
            return [
                self._window.Raccumulate(
                    self._spec(part), self.ranks[server], self._target(at, part), self._mpi.SUM
                )
                for at, part in _pieces(offset, values)
            ]

    def finish(self, servers: Iterable[int], requests: Sequence[Any]) -> None:
        """Return when requests to these servers are complete."""
        self._await(list(servers), requests)

    def settle(self, servers: Iterable[int]) -> None:
        """Return when all operations begun at these servers are complete there (flush)."""
        asked = list(servers)
        self._await(asked, [self.ask(server, 0, np.zeros(1, np.int64)) for server in asked])
        for server in asked:
            with self._begun():
                self._window.Flush(self.ranks[server])

    def meet(self) -> None:
        """Wait until all ranks are here (collective)."""
        self._complete([self._group.Ibarrier()], "the other ranks of the box")

    def check_open(self) -> None:
        """Raise SegmentError if it is closed, and any error that has ended an operation before."""
        if not self.is_open:
            raise SegmentError("the box is closed: expected an open one")
        if self._failure is not None:
            raise type(self._failure)(
                f"{self._failure}; what the box was doing then may be half done: make a new one"
            )
        if self._progress is not None:
            self._progress.check()

    @property
    def lost(self) -> bool:
        """Whether an operation has timed out or failed."""
        return self._failure is not None

    def close(self) -> None:
        """Free the memory (collective)."""
        self.is_open = False
        self.meet()
        self._window.Unlock_all()
        self._window.Free()
        self.abandon()
        self._group.Free()

    def abandon(self) -> None:
        """Stop the thread; the end of the process frees the rest."""
        self.is_open = False
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _change(self, changes: Iterable[tuple[int, int, int]], op: Any) -> list[AnyArray]:
        servers, found, requests = [], [], []
        for server, word, value in changes:
            servers.append(server)
            found.append(np.zeros(1, np.int64))
            requests.append(self._ask(server, word, np.array([value]), found[-1], op))
        self._await(servers, requests)
        return found

    def _ask(self, server: int, word: int, values: AnyArray, found: AnyArray, op: Any) -> Any:
        """Fetch and change words, each atomically; the fetched values show that it is complete."""
        self.check_open()
        target = (word * WORD_BYTES, found.size, self._mpi.INT64_T)
        given, taken = self._spec(values), self._spec(found)
        with self._begun():
            return self._window.Rget_accumulate(given, taken, self.ranks[server], target, op)

    def _await(self, servers: Sequence[int], requests: Sequence[Any]) -> None:
        ranks = ", ".join(str(self.ranks[server]) for server in sorted(set(servers)))
        self._complete(requests, f"an answer of rank {ranks}, where the box's memory is")

    def _complete(self, requests: Sequence[Any], awaited: str) -> None:
        try:
            self._completion.of(requests, lambda: awaited)
        except (ExchangeTimeout, PeerLost) as error:
            self._failure = error
            raise

    @contextmanager
    def _begun(self) -> Iterator[None]:
        """Translate errors that MPI raises at once, and remember them."""
        try:
            with mpi_errors(self._mpi):
                yield
        except PeerLost as error:
            self._failure = error
            raise

    def _agree(self) -> None:
        """Check that all ranks ask for the same box, and that each server has room for it."""
        asked = np.array([self.bytes, zlib.crc32(repr(self.ranks).encode()), room_bytes()])
        found = np.zeros((self._group.size, asked.size), np.int64)
        self._complete([self._group.Iallgather(asked, found)], "the other ranks to make the box")
        for rank, (bytes_, servers, room) in enumerate(found):
            if (bytes_, servers) != tuple(asked[:2]):
                raise SegmentError(
                    f"rank {rank} makes a box of {bytes_} bytes for each server, rank {self.rank} "
                    f"one of {self.bytes}, or their servers differ: expected the same for all"
                )
            if rank in self.ranks and self.bytes > room:
                raise SegmentError(
                    f"rank {rank} has no room for {self.bytes} bytes of the box: /dev/shm has "
                    f"{room}; take more servers, or fewer bytes for each"
                )

    def _spec(self, values: AnyArray) -> list[Any]:
        whole = values.dtype == np.int64
        return [values, self._mpi.INT64_T if whole else self._mpi.FLOAT]

    def _target(self, offset: int, values: AnyArray) -> tuple[int, int, Any]:
        return offset, values.size, self._spec(values)[1]


def _checked(comm: Any, servers: Sequence[int] | None) -> list[int]:
    ranks = list(range(comm.size) if servers is None else servers)
    known = all(0 <= rank < comm.size for rank in ranks)
    if not ranks or not known or len(set(ranks)) < len(ranks):
        raise SegmentError(
            f"servers = {ranks}: expected ranks of 0 to {comm.size - 1}, one at least, each once"
        )
    return ranks


def _pieces(offset: int, values: AnyArray) -> Iterable[tuple[int, AnyArray]]:
    each = _PIECE_BYTES // values.itemsize
    for begin in range(0, values.size, each):
        yield offset + begin * values.itemsize, values[begin : begin + each]
