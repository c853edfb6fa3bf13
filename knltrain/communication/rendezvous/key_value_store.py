"""The interface of key-value stores, for ranks that do not know each other's addresses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final


class KeyValueStore(ABC):
    """Texts by key, written and read by all ranks of a run; no key is written twice.

    Both methods raise PeerLost if the store is gone.
    """

    @abstractmethod
    def put(self, key: str, value: str) -> None:
        """Write a value; others see it soon, perhaps not at once."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """Return a value; None, without waiting, if there is none yet."""


@final
class InMemoryStore(KeyValueStore):
    """The store of ranks in one process: the only rank of a run, or threads."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def put(self, key: str, value: str) -> None:
        """Write a value."""
        self._words[key] = value

    def get(self, key: str) -> str | None:
        """Return a value, or None."""
        return self._words.get(key)
