"""The interface below the one-sided layer: the ranks, and memory that other ranks write into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from knltrain.errors import CollectiveError

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of a rank in a remote memory: ``size_bytes`` of data and a number of ``words``."""

    size_bytes: int
    words: int


@dataclass(frozen=True, slots=True)
class Room:
    """The bytes that are free on a ``node`` for one rank, and those for several that share them."""

    node: str
    alone_bytes: int
    shared_bytes: int


class RemoteMemory(ABC):
    """A piece of memory at each rank: ``memory`` (uint8, this rank's own), and words beside it.

    A `put` or `get` takes place at any time before `complete` returns, and several in any order.
    They do not block. All others may block until the other process makes progress in its library.
    Several threads may call all of them; `complete` covers what its own thread has started.
    """

    extents: list[Extent]
    """The part of each rank."""

    memory: Bytes

    @abstractmethod
    def put(self, data: Bytes, rank: int, offset_bytes: int) -> None:
        """Start to copy ``data`` (n,) to ``rank``; it must not change until `complete`."""

    @abstractmethod
    def get(self, out: Bytes, rank: int, offset_bytes: int) -> None:
        """Start to copy from ``rank`` to ``out`` (n,), which is filled by `complete`."""

    @abstractmethod
    def compare_swap(self, rank: int, offset_bytes: int, expected: int, value: int) -> int:
        """Set an int64 in the memory of ``rank`` if it is as ``expected``; return what it was.

        Atomic beside others of these.
        """

    @abstractmethod
    def store(self, rank: int, word: int, value: int) -> None:
        """Write a word of ``rank`` atomically; complete at the target when this returns."""

    @abstractmethod
    def complete(self, rank: int) -> None:
        """Return when all that this thread has put to ``rank`` or gets from it is complete."""

    @abstractmethod
    def read_words(self, begin: int, out: Words) -> None:
        """Copy this rank's own words from ``begin`` on to ``out`` (k,), each atomically.

        Data that were complete at this rank before a word was stored are visible in ``memory``
        after the word has been read here.
        """

    @abstractmethod
    def swap_word(self, word: int, value: int) -> int:
        """Write an own word and return its old value (atomic swap)."""

    @abstractmethod
    def free(self) -> None:
        """Free the memory (collective); no rank may write any more."""


class Ranks(ABC):
    """The ranks of a run, processes or threads: ``rank`` is this one, of ``size``."""

    rank: int
    size: int

    @abstractmethod
    def tell(self, text: str, ranks: Sequence[int], timeout_seconds: float) -> dict[int, str]:
        """Tell each of some ranks, this one among them, a text, and hear theirs (collective).

        Those that do not tell theirs in time are missing. The n-th text of one rank to another
        belongs to the n-th of that, whether or not it came in time. A long text may be cut at its
        end, for this rank as for the others; those of different ones differ still.
        """

    @abstractmethod
    def room(self) -> Room:
        """Return what is free for `allocate`, here and now."""

    @abstractmethod
    def group(self, members: tuple[int, ...]) -> Ranks:
        """Make the ranks of a group, numbered from 0 in this order (collective among them)."""

    @abstractmethod
    def allocate(self, extents: list[Extent]) -> RemoteMemory:
        """Make a remote memory of zeros (collective, no timeout); ``extents`` are all ranks' parts.

        No rank may write before all have returned.
        """

    @abstractmethod
    def send(
        self, data: Bytes, rank: int, timeout_seconds: float, check: Callable[[], None]
    ) -> None:
        """Send ``data`` (n,) to another rank, which receives it.

        Returns when ``data`` may be changed: small ones may not have been received yet. Raises
        ExchangeTimeout if large ones are not. ``check`` is called now and then, and may raise.
        """

    @abstractmethod
    def receive(self, out: Bytes, timeout_seconds: float, check: Callable[[], None]) -> int:
        """Receive the next message to this rank, as long as ``out`` (n,); return who sent it.

        As `send`; only one thread at a time may receive. Messages of a rank come in their order.
        Raises CollectiveError for a message of another length.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what connects the ranks (collective)."""

    @abstractmethod
    def abandon(self) -> None:
        """End this rank's threads without the others, after a failure (not collective)."""


def check_message(rank: int, came_bytes: int, expected_bytes: int) -> None:
    """Raise CollectiveError for a message of another length than is expected."""
    if came_bytes != expected_bytes:
        raise CollectiveError(
            f"a message of {came_bytes} bytes came from rank {rank}: expected {expected_bytes}"
        )
