"""Readers-writer locks of shards, one word at each owner: many processes add, or one is alone.

A process requests a lock by a fetch-and-add on its word, and sees from the old value whether it has
the lock. If not, it subtracts again and retries later. So no process waits for one lock of a kind
while it holds another, and one MPI operation suffices, which can be waited for with a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from knltrain.communication.memory_box.remote.layout import (
    DIRECTORY_LOCK_WORD,
    GATE,
    HOLDER,
    LOCK,
    SLOTS,
    USER,
    gates,
    generation,
    slot_word,
    users,
)
from knltrain.communication.memory_box.remote.window import AnyArray, Window
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, SegmentError


@final
class ShardLocks:
    """The locks of the buffer with this ``key``, at every server."""

    def __init__(self, window: Window, key: int) -> None:
        self._window, self._key = window, key
        self._word = slot_word(key % SLOTS)

    def is_known(self, lock: int) -> bool:
        """Tell whether the word of a lock is that of this buffer, not one freed or made since."""
        return generation(lock) == self._key // SLOTS

    def check_open(self) -> None:
        """Raise SegmentError if the buffer was freed."""
        self.check(self._window.words(0, self._word + LOCK)[0])

    def ask(self, out: AnyArray) -> Any:
        """Begin to read a lock into ``out`` (1,), for `check`; return the request."""
        return self._window.ask(0, self._word + LOCK, out)

    def check(self, lock: int) -> None:
        """Raise SegmentError if a lock is of another buffer: this one was freed."""
        if not self.is_known(lock):
            raise self._freed()

    @contextmanager
    def shared(self, servers: Sequence[int]) -> Iterator[None]:
        """Hold the locks of shards at these servers, shared with others that add."""
        self._until(self._taking(servers, USER), servers)
        yield from self._held(servers, USER)

    @contextmanager
    def alone(self, server: int) -> Iterator[None]:
        """Hold the lock of the shard of a server exclusively."""
        self._until(self._taking([server], GATE), [server])
        try:
            self._window.replace([(server, self._word + HOLDER, self._window.rank)])
            self._until(lambda: self._is_left(server), [server])
        except BaseException:
            self._give_back([server], GATE)
            raise
        yield from self._held([server], GATE)

    def _held(self, servers: Sequence[int], unit: int) -> Iterator[None]:
        try:
            yield
        finally:
            self._give_back(servers, unit)

    def _taking(self, servers: Sequence[int], unit: int) -> _Look:
        """Return what tries to take locks; from the second time on it looks first.

        So those who wait do not see each other try, and take one free lock for a held one.
        """
        tries = 0

        def take() -> bool:
            nonlocal tries
            tries += 1
            if tries > 1 and any(gates(self._word_at(server)) for server in servers):
                return False
            return self._took(servers, unit)

        return take

    def _word_at(self, server: int) -> int:
        return self._window.words(server, self._word + LOCK)[0]

    def _took(self, servers: Sequence[int], unit: int) -> bool:
        found = self._window.add((server, self._word + LOCK, unit) for server in servers)
        known = all(map(self.is_known, found))
        if known and not any(map(gates, found)):
            return True
        self._give_back(servers, unit)
        if not known:
            raise self._freed()
        return False

    def _is_left(self, server: int) -> bool:
        return users(self._word_at(server)) == 0

    def _give_back(self, servers: Sequence[int], unit: int) -> None:
        if not self._window.lost:
            self._window.add((server, self._word + LOCK, -unit) for server in servers)

    def _until(self, look: _Look, servers: Sequence[int]) -> None:
        limit = self._window.timeout_seconds
        if not nap_until(look, self._window.check_open, self._window.check_run, limit):
            raise ExchangeTimeout(
                f"waited {limit:g} s in vain for {self._holders(servers)} the buffer with key "
                f"{self._key}"
            )

    def _holders(self, servers: Sequence[int]) -> str:
        found = [self._window.words(server, self._word, HOLDER + 1) for server in servers]
        alone = {words[HOLDER] for words in found if gates(words[LOCK])} - {self._window.rank}
        ranks = ", ".join(map(str, sorted(alone)))
        return f"rank {ranks}, alone at work on" if alone else "those who add to"

    def _freed(self) -> SegmentError:
        return SegmentError(f"the buffer with key {self._key} was freed: open another")


@contextmanager
def directory(window: Window) -> Iterator[None]:
    """Hold the lock under which buffers are made and freed."""

    def took() -> bool:
        found = window.add([(0, DIRECTORY_LOCK_WORD, 1)])
        if found != [0]:
            window.add([(0, DIRECTORY_LOCK_WORD, -1)])
        return found == [0]

    if not nap_until(took, window.check_open, lambda: None, window.timeout_seconds):
        raise ExchangeTimeout(
            f"waited {window.timeout_seconds:g} s in vain for another process, which makes or "
            "frees a buffer of the box"
        )
    try:
        yield
    finally:
        if not window.lost:
            window.add([(0, DIRECTORY_LOCK_WORD, -1)])


_Look = Callable[[], bool]
