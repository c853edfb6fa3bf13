from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost
from knltrain.torch_distributed.ccl import lane as module
from knltrain.torch_distributed.ccl.lane import Lane, Share
from knltrain.torch_distributed.work import Operation


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
    one.close(5)
    assert "oneCCL" in {thread.name for thread in threading.enumerate()}
    _put(other, lambda: None).wait()
    other.close(5)
    assert "oneCCL" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(CollectiveError, match="was destroyed"):
        _put(one, lambda: None)
    again = Share(lane, "again")
    _put(again, lambda: None).wait()
    again.close(5)


def test_error_of_an_operation_is_that_of_its_work_alone() -> None:
    share = Share(Lane(), "one")
    failing = _put(share, lambda: int("x"))
    with pytest.raises(ValueError, match="invalid literal"):
        failing.wait()
    _put(share, lambda: None).wait()
    share.close(5)


def test_call_that_takes_too_long_ends_the_waiting_for_all() -> None:
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
    hold.set()
    one.close(5)
    other.close(5)


@pytest.mark.slow
def test_limit_counts_from_when_an_operation_begins() -> None:
    share = Share(Lane(), "one")
    works = [_put(share, lambda: time.sleep(0.2), limit=2) for _ in range(12)]
    for work in works:
        work.wait()
    share.close(5)


def test_lost_peer_fails_its_group_and_no_other_unless_it_is_waited_for() -> None:
    lane, hold = Lane(), threading.Event()
    one, other = Share(lane, "one"), Share(lane, "other")
    running = _put(one, lambda: hold.wait(30))
    behind = _put(other, int)
    other.fail(PeerLost("rank 1 is gone"))
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        behind.wait()
    hold.set()
    running.wait()
    _put(one, int).wait()
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        _put(other, int)
    one.close(5)
    other.close(5)


def test_who_keeps_time_sleeps_once_it_is_late() -> None:
    lane, hold = Lane(), threading.Event()
    share = Share(lane, "one")
    late = _put(share, lambda: hold.wait(30), limit=0.05)
    with pytest.raises(ExchangeTimeout):
        late.wait()
    begun = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - begun < 0.25
    hold.set()
    share.close(5)


def test_operations_have_seconds_once_a_rank_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAST_WORK_SECONDS", 0.2)
    lane, hold = Lane(), threading.Event()
    one, other = Share(lane, "one"), Share(lane, "other")
    one.depart(PeerLost("rank 1 has left the group"))
    _put(one, lambda: None).wait()  # that rank's part was done
    _put(other, lambda: time.sleep(0.4)).wait()
    waiting = _put(one, lambda: hold.wait(30))
    with pytest.raises(PeerLost, match="rank 1 has left"):
        waiting.wait()
    hold.set()
    for share in (one, other):
        share.close(5)


def test_operation_under_way_has_seconds_from_when_a_rank_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LAST_WORK_SECONDS", 0.2)
    share, hold = Share(Lane(), "one"), threading.Event()
    waiting = _put(share, lambda: hold.wait(30))
    time.sleep(0.3)
    share.depart(PeerLost("rank 1 has left the group"))
    with pytest.raises(PeerLost, match="rank 1 has left"):
        waiting.wait()
    hold.set()
    share.close(5)


def test_group_that_is_closed_over_a_call_under_way_leaves_no_second_thread() -> None:
    lane, hold = Lane(), threading.Event()
    share = Share(lane, "one")
    under_way = _put(share, lambda: hold.wait(30))
    share.close(0.1)
    with pytest.raises(CollectiveError, match="was destroyed"):
        under_way.wait()
    with pytest.raises(CollectiveError, match="was destroyed"):
        _put(Share(lane, "next"), int)
    hold.set()


def test_forked_process_is_told_that_it_has_no_lane() -> None:
    lane = Lane()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            Share(lane, "one")
        except CollectiveError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as said:
        assert "this one was forked of it" in said.read()
