"""The seam under the one-sided layer: memory that other ranks write into, and who the ranks are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extent:
    """What a rank has of a remote memory: ``size_bytes`` of data and ``words`` of 64 bits."""

    size_bytes: int
    words: int


class RemoteMemory(ABC):
    """A piece of memory at each rank: ``memory`` (uint8, this rank's own), and words beside it.

    A `put` may happen at any time until `complete` returns, and several in any order. `put` waits
    for nobody; `store` and `complete` may, until the other process lets its library work. All may
    be called by several threads; `complete` speaks for what its own thread has started.
    """

    extents: list[Extent]
    """What each rank has."""

    memory: Bytes

    @abstractmethod
    def put(self, data: Bytes, rank: int, offset_bytes: int) -> None:
        """Start to copy ``data`` (n,) to ``rank``; it has to stay as it is until `complete`."""

    @abstractmethod
    def store(self, rank: int, word: int, value: int) -> None:
        """Write a word of ``rank``, whole; it is done there when this returns."""

    @abstractmethod
    def complete(self, rank: int) -> None:
        """Return when all that this thread has put to ``rank`` is there."""

    @abstractmethod
    def read_words(self, begin: int, out: Words) -> None:
        """Copy this rank's own words from ``begin`` on to ``out`` (k,), each of them whole.

        Of a word that is found here, all that was complete at this rank before the word was stored
        can be read in ``memory`` afterwards.
        """

    @abstractmethod
    def swap_word(self, word: int, value: int) -> int:
        """Write an own word and return what it was, in one atomic operation."""

    @abstractmethod
    def free(self) -> None:
        """Give the memory back; all ranks do so, once nobody writes any more."""


class Ranks(ABC):
    """The processes, or threads, of a run: ``rank`` is this one, of ``size``."""

    rank: int
    size: int

    @abstractmethod
    def meet(self, timeout_seconds: float) -> list[int]:
        """Wait for all ranks (collective); return those that did not come in time."""

    @abstractmethod
    def allocate(self, extent: Extent) -> RemoteMemory:
        """Make a remote memory of zeros, which all ranks do now; each says what it has of it."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what keeps the ranks together (collective)."""

    @abstractmethod
    def abandon(self) -> None:
        """End what works for this rank, alone, where others do not come any more."""
