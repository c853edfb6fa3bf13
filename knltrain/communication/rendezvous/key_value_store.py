"""The seam by which ranks that do not know each other's addresses leave words for each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final


class KeyValueStore(ABC):
    """Words by key, which all ranks of a run write and read; no key is written twice.

    Both raise PeerLost where the store is gone.
    """

    @abstractmethod
    def put(self, key: str, value: str) -> None:
        """Leave a word, which others find soon: maybe not in the moment after."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """Return a word; None, without waiting, where there is none yet."""


@final
class InMemoryStore(KeyValueStore):
    """The store of ranks in one process: of a run's only rank, or of threads."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def put(self, key: str, value: str) -> None:
        """Leave a word."""
        self._words[key] = value

    def get(self, key: str) -> str | None:
        """Return a word, or None."""
        return self._words.get(key)
