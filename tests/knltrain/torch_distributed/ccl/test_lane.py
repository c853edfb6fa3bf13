from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost
from knltrain.torch_distributed.ccl import lane as module
from knltrain.torch_distributed.ccl.lane import Lane, Share
from knltrain.torch_distributed.work import Operation


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the process was told to end without clearing up."""
    found: list[str] = []
    monkeypatch.setattr(module, "leave_as_it_is_at_exit", lambda: found.append("told"))
    return found


def _put(share: Share, do: Callable[[], object], limit: float = 10) -> Operation:
    return share.put(Operation([], lambda: do() and None), is_awaited=True, limit=limit)


def test_groups_take_turns_in_the_order_of_calls_in_one_thread() -> None:
    lane = Lane()
    one, other = Share(lane, "one"), Share(lane, "other")
    found: list[tuple[int, str]] = []

    def note(number: int) -> None:
        found.append((number, threading.current_thread().name))

    works = [
        _put(share, lambda n=number: note(n)) for number, share in enumerate([one, other, one] * 5)
    ]
    for work in works:
        work.wait()
    assert found == [(number, "oneCCL") for number in range(15)]
    assert one.close(5)
    assert "oneCCL" in {thread.name for thread in threading.enumerate()}
    _put(other, lambda: None).wait()
    assert other.close(5)
    assert "oneCCL" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(CollectiveError, match="was destroyed"):
        _put(one, lambda: None)
    again = Share(lane, "again")
    _put(again, lambda: None).wait()
    assert again.close(5)


def test_error_of_an_operation_is_that_of_its_work_alone() -> None:
    share = Share(Lane(), "one")
    failing = _put(share, lambda: int("x"))
    with pytest.raises(ValueError, match="invalid literal"):
        failing.wait()
    _put(share, lambda: None).wait()
    assert share.close(5)


def test_call_that_takes_too_long_ends_the_waiting_for_all(ends: list[str]) -> None:
    lane, hold = Lane(), threading.Event()
    one, other = Share(lane, "the group of ranks 0, 1"), Share(lane, "other")
    begun = time.monotonic()
    works = [_put(one, lambda: hold.wait(30), limit=0.2), _put(one, int), _put(other, int)]
    for work in works:
        with pytest.raises(ExchangeTimeout, match=r"0\.2 s in vain .* the group of ranks 0, 1"):
            work.wait()
    assert time.monotonic() - begun < 10
    for share in (one, other):  # the thread is in the call still
        with pytest.raises(ExchangeTimeout):
            _put(share, int)
    assert ends
    hold.set()
    assert not one.close(5)
    assert not other.close(5)


def test_limit_counts_from_when_an_operation_begins(ends: list[str]) -> None:
    share = Share(Lane(), "one")
    works = [_put(share, lambda: time.sleep(0.2), limit=1) for _ in range(8)]
    for work in works:
        work.wait()
    assert share.close(5)
    assert not ends


def test_lost_peer_fails_its_group_and_no_other_unless_it_is_waited_for(ends: list[str]) -> None:
    lane, hold = Lane(), threading.Event()
    one, other = Share(lane, "one"), Share(lane, "other")
    running = _put(one, lambda: hold.wait(30))
    behind = _put(other, int)
    other.fail(PeerLost("rank 1 is gone"))
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        behind.wait()
    assert not ends
    hold.set()
    running.wait()
    _put(one, int).wait()
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        _put(other, int)
    assert one.close(5)
    assert other.close(5)
