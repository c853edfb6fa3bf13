"""Locks of shards: by real ranks, and step by step on words of this process alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from knltrain.communication.memory_box.remote.layout import (
    GATE,
    GENERATION,
    SLOTS,
    USER,
    WORDS,
    slot_word,
)
from knltrain.communication.memory_box.remote.locks import ShardLocks, directory
from knltrain.errors import ExchangeTimeout, PeerLost, SegmentError

from ....mpi_ranks import needs_mpi

NUMBER, SLOT = 5, 3
KEY = NUMBER * SLOTS + SLOT
WORD = slot_word(SLOT)
FREE = NUMBER * GENERATION


class Words:
    """What a window offers to locks, for two servers, in this process."""

    def __init__(self) -> None:
        self.rank, self.timeout_seconds, self.lost = 0, 0.05, False
        self.held = [[0] * WORDS for _ in range(2)]
        for words in self.held:
            words[WORD] = FREE

    def check_run(self) -> None:
        """Nothing has gone wrong elsewhere."""

    def add(self, changes: Iterable[tuple[int, int, int]]) -> list[int]:
        found = []
        for server, word, value in changes:
            found.append(self.held[server][word])
            self.held[server][word] += value
        return found

    def replace(self, changes: Iterable[tuple[int, int, int]]) -> None:
        for server, word, value in changes:
            self.held[server][word] = value

    def words(self, server: int, first: int, count: int = 1) -> list[int]:
        return self.held[server][first : first + count]

    def check_open(self) -> None:
        pass

    @property
    def locks(self) -> list[int]:
        return [words[WORD] - FREE for words in self.held]


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def locks(words: Words) -> ShardLocks:
    return ShardLocks(words, KEY)  # type: ignore[arg-type]


def test_many_may_add_at_once(words: Words, locks: ShardLocks) -> None:
    with locks.shared([0, 1]), locks.shared([1]):
        assert words.locks == [USER, 2 * USER]
    assert words.locks == [0, 0]


def test_nobody_adds_where_one_is_alone(words: Words, locks: ShardLocks) -> None:
    with locks.alone(1):
        with (
            pytest.raises(ExchangeTimeout, match=f"the buffer with key {KEY}"),
            locks.shared([0, 1]),
        ):
            raise AssertionError("inside")
        with locks.shared([0]):
            assert words.locks == [USER, GATE]
    assert words.locks == [0, 0]


def test_who_waits_does_not_disturb_the_lock(
    words: Words, locks: ShardLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others who wait would take its tries for one who is alone."""
    tries: list[int] = []
    add = words.add
    with locks.alone(0):
        monkeypatch.setattr(words, "add", lambda changes: tries.append(1) or add(changes))
        with pytest.raises(ExchangeTimeout), locks.alone(0):
            raise AssertionError("inside")
        assert len(tries) == 2  # the first try, and its end


def test_who_waits_hears_of_an_abort(
    words: Words, locks: ShardLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def aborted() -> None:
        raise PeerLost("another worker failed")

    words.timeout_seconds = 30.0
    monkeypatch.setattr(words, "check_run", aborted)
    with locks.alone(0), pytest.raises(PeerLost), locks.alone(0):
        raise AssertionError("inside")
    assert words.locks == [0, 0]


def test_who_wants_a_shard_alone_waits_for_those_who_add(words: Words, locks: ShardLocks) -> None:
    with locks.shared([0]):
        with pytest.raises(ExchangeTimeout, match="in vain for those who add to"), locks.alone(0):
            raise AssertionError("inside")
        assert words.locks == [USER, 0]  # and does not hold up others for ever


def test_two_are_not_alone_at_once(words: Words, locks: ShardLocks) -> None:
    words.rank = 7
    with locks.alone(0):
        words.rank = 1
        with pytest.raises(ExchangeTimeout, match="for rank 7, alone at work on"), locks.alone(0):
            raise AssertionError("inside")
        assert words.locks == [GATE, 0]


def test_locks_are_given_back_after_an_error(words: Words, locks: ShardLocks) -> None:
    for held in (lambda: locks.shared([0, 1]), lambda: locks.alone(1)):
        with pytest.raises(RuntimeError), held():
            raise RuntimeError
        assert words.locks == [0, 0]


def test_freed_buffer_is_told_and_the_next_one_left_alone(words: Words, locks: ShardLocks) -> None:
    for held in (lambda: locks.shared([0, 1]), lambda: locks.alone(1)):
        for left in (0, FREE + GENERATION):
            words.held[1][WORD] = left
            with pytest.raises(SegmentError, match=f"key {KEY} was freed"), held():
                raise AssertionError("inside")
            assert words.held[1][WORD] == left
            assert words.locks[0] == 0


def test_directory_is_for_one(words: Words) -> None:
    with directory(words):  # type: ignore[arg-type]
        with pytest.raises(ExchangeTimeout, match="makes or frees"), directory(words):  # type: ignore[arg-type]
            raise AssertionError("inside")
        assert words.held[0][0] == 1
    assert words.held[0][0] == 0


@pytest.mark.slow
@needs_mpi
def test_who_has_a_shard_alone_for_too_long_is_named(run: Callable[..., str]) -> None:
    run("who_has_a_shard_alone_for_too_long_is_named")
