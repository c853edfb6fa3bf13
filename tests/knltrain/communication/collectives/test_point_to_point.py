from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from knltrain.communication.collectives import GroupSegment, PointToPoint
from knltrain.communication.collectives.layout import RING_BYTES
from knltrain.communication.collectives.message import ANY_RANK, Request
from knltrain.communication.collectives.peer_wait import PeerWait
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost

ParameterGroups = Callable[[int], list[GroupSegment]]
LIMIT_SECONDS = 20


class Parcel:
    """A request, and what came of it."""

    def __init__(self, array: np.ndarray, rank: int, tag: int = 0, limit: float = 20.0) -> None:
        self.outcome: tuple[Any, int] | None = None
        self._is_done = threading.Event()
        self.request = Request(rank, tag, int(array.ctypes.data), array.nbytes, self._finish, limit)

    def _finish(self, error: BaseException | None, rank: int) -> None:
        assert self.outcome is None
        self.outcome = error, rank
        self._is_done.set()

    def wait(self) -> tuple[Any, int]:
        assert self._is_done.wait(LIMIT_SECONDS)
        assert self.outcome is not None
        return self.outcome


@pytest.fixture
def mails(segments: ParameterGroups) -> Iterator[list[PointToPoint]]:
    names = [f"rank {rank}" for rank in range(3)]
    made = [
        PointToPoint(segment, rank, PeerWait(segment, rank, names))
        for rank, segment in enumerate(segments(3))
    ]
    yield made
    for mail in made:
        mail.close()


def test_messages_cross_in_both_directions(mails: list[PointToPoint]) -> None:
    size = 3 * RING_BYTES + 5
    given = [np.full(size, rank, np.uint8) for rank in (1, 2)]
    got = [np.zeros(size, np.uint8) for _ in range(2)]
    sent = [Parcel(given[rank], 1 - rank) for rank in range(2)]
    wanted = [Parcel(got[rank], 1 - rank) for rank in range(2)]
    for rank in range(2):
        mails[rank].send(sent[rank].request)
    for rank in range(2):
        mails[rank].receive(wanted[rank].request)
    assert [parcel.wait() for parcel in sent + wanted] == [(None, 1), (None, 0)] * 2
    assert [array[-1] for array in got] == [2, 1]


def test_messages_are_told_by_tag_and_wait_until_asked_for(mails: list[PointToPoint]) -> None:
    given = {tag: np.full(RING_BYTES, tag, np.uint8) for tag in (1, 2, 3)}
    got = {tag: np.zeros(RING_BYTES, np.uint8) for tag in given}
    for tag, array in given.items():
        mails[0].send(Parcel(array, 1, tag).request)
    for tag in (3, 1, 2):
        parcel = Parcel(got[tag], 0, tag)
        mails[1].receive(parcel.request)
        assert parcel.wait() == (None, 0)
        assert np.array_equal(got[tag], given[tag])


def test_message_of_any_rank_says_whose_it_is(mails: list[PointToPoint]) -> None:
    got = np.zeros(3)
    parcel = Parcel(got, ANY_RANK, 4)
    mails[0].receive(parcel.request)
    mails[2].send(Parcel(np.ones(3), 0, 4).request)
    assert parcel.wait() == (None, 2)
    assert got.tolist() == [1, 1, 1]


def test_one_who_does_not_receive_stops_no_message_to_others(mails: list[PointToPoint]) -> None:
    large = np.zeros(10 * RING_BYTES, np.uint8)
    mails[0].send(Parcel(large, 1).request)
    parcel = Parcel(np.zeros(2), 0)
    mails[0].send(Parcel(np.ones(2), 2).request)
    mails[2].receive(parcel.request)
    assert parcel.wait() == (None, 0)


def test_message_of_another_size_is_told(mails: list[PointToPoint]) -> None:
    parcel = Parcel(np.zeros(2), 0)
    mails[0].send(Parcel(np.zeros(3), 1).request)
    mails[1].receive(parcel.request)
    error, _ = parcel.wait()
    assert isinstance(error, CollectiveError)
    assert "rank 0 sent 24 bytes" in str(error)


def test_rank_that_left_and_one_that_lets_wait_are_named(
    mails: list[PointToPoint], segments: ParameterGroups
) -> None:
    names = ["rank 0", "rank 1"]
    first, second = segments(2)
    mail = PointToPoint(first, 0, PeerWait(first, 0, names))
    late = Parcel(np.zeros(2), 1, limit=0.2)
    mails[0].receive(late.request)
    assert isinstance(late.wait()[0], ExchangeTimeout)
    lost = Parcel(np.zeros(2), 1)
    mail.receive(lost.request)
    second.leave(1)
    error, _ = lost.wait()
    assert isinstance(error, PeerLost)
    assert "rank 1 is gone" in str(error)
    mail.close()


def test_what_is_not_done_at_the_end_fails(mails: list[PointToPoint]) -> None:
    parcel = Parcel(np.zeros(2), 1)
    mails[0].receive(parcel.request)
    mails[0].close()
    assert isinstance(parcel.wait()[0], CollectiveError)
