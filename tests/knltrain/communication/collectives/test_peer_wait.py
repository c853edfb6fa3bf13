from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from knltrain.communication.collectives import GroupSegment
from knltrain.communication.collectives.layout import HOLDER, state_word
from knltrain.communication.collectives.peer_wait import PeerWait
from knltrain.communication.shared_memory import process_identity
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost

ParameterGroups = Callable[[int], list[GroupSegment]]
NAMES = ["rank 4", "rank 7"]


@pytest.fixture
def peer_waits(segments: ParameterGroups) -> tuple[PeerWait, PeerWait, GroupSegment]:
    first, second = segments(2)
    return PeerWait(first, 0, NAMES), PeerWait(second, 1, NAMES), first


def never() -> bool:
    return False


def test_rank_whose_process_has_ended_is_named_to_all(
    peer_waits: tuple[PeerWait, PeerWait, GroupSegment],
) -> None:
    one, other, segment = peer_waits
    with subprocess.Popen(["sleep", "100"]) as child:
        identity = process_identity.identity_of(child.pid)
        assert identity is not None
        segment.words[state_word(1) + HOLDER] = identity
        child.kill()
    begin = time.monotonic()
    with pytest.raises(PeerLost, match=f"rank 7 is gone: its process {child.pid} has ended"):
        one.wait(never, lambda: [1], 60)
    assert time.monotonic() - begin < 30
    with pytest.raises(PeerLost, match="rank 7 is gone"):
        other.check()


def test_rank_that_left_is_named(peer_waits: tuple[PeerWait, PeerWait, GroupSegment]) -> None:
    one, other, _ = peer_waits
    other._segment.leave(1)
    with pytest.raises(PeerLost, match="rank 7 is gone: it has left the group"):
        one.wait(never, lambda: [1], 60)


def test_rank_that_came_before_it_left_is_not_missed(
    peer_waits: tuple[PeerWait, PeerWait, GroupSegment],
) -> None:
    one, other, _ = peer_waits
    other._segment.leave(1)
    looks = iter([False] * 1000 + [True])
    one.wait(lambda: next(looks), list, 60)
    one.check()


def test_rank_that_lets_wait_is_named_and_the_group_is_broken(
    peer_waits: tuple[PeerWait, PeerWait, GroupSegment],
) -> None:
    one, other, _ = peer_waits
    with pytest.raises(
        ExchangeTimeout, match=r"0\.2 s in vain for rank 7 \(process \d+ on host \S+, running"
    ):
        one.wait(never, lambda: [1], 0.2)
    with pytest.raises(ExchangeTimeout, match="rank 4 waited in vain"):
        other.check()


def test_different_calls_and_an_end_by_hand_are_told(
    peer_waits: tuple[PeerWait, PeerWait, GroupSegment], segments: ParameterGroups
) -> None:
    one, other, _ = peer_waits
    error = one.mismatch(["barrier", "gather"])
    assert "rank 4 called barrier; rank 7 called gather" in str(error)
    with pytest.raises(CollectiveError, match="rank 4 found"):
        other.check()
    ended = PeerWait(segments(1)[0], 0, ["rank 0"])
    ended.end()
    with pytest.raises(PeerLost, match="aborted by rank 0"):
        ended.check()
