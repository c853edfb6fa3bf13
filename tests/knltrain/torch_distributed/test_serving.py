"""What futures call when operations are done, in the threads that do operations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from knltrain.torch_distributed.ccl.lane import Lane, Share
from knltrain.torch_distributed.order import Order
from knltrain.torch_distributed.serving import peer_wait
from knltrain.torch_distributed.work import Operation

LIMIT_SECONDS = 60
SHORT_SECONDS = 0.4


@pytest.fixture(params=["order", "lane"])
def queue(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: Any = Order("serving") if request.param == "order" else Share(Lane(), "one")
    yield made
    made.close(LIMIT_SECONDS)


def put(
    queue: Any, do: Callable[[], object] = int, is_awaited: bool = False, limit: float = 60
) -> Operation:
    found: Operation = queue.put(Operation([], lambda: do() and None), is_awaited, limit)
    return found


@pytest.mark.parametrize("is_awaited", [False, True])
@pytest.mark.parametrize("wait", [lambda work: work.wait(), lambda work: work.get_future().wait()])
def test_future_may_call_what_waits_for_another_operation(
    queue: Any, is_awaited: bool, wait: Any
) -> None:
    hold = threading.Event()
    first = put(queue, lambda: hold.wait(LIMIT_SECONDS))
    found = first.get_future()
    for _ in range(3):
        found = found.then(lambda _future: wait(put(queue, is_awaited=is_awaited)))
    hold.set()
    found.wait()


def test_operations_that_futures_ask_for_have_their_place_in_the_order_of_the_program(
    queue: Any,
) -> None:
    """All ranks have to agree on it, however long each takes."""
    hold, done = threading.Event(), list[str]()

    def work(name: str) -> Operation:
        return put(queue, lambda: done.append(name))

    put(queue, lambda: hold.wait(LIMIT_SECONDS))
    first, second = work("first"), work("second")
    both = torch.futures.collect_all([first.get_future(), second.get_future()])
    of_both = both.then(lambda _futures: work("of both").wait())
    of_first = first.get_future().then(lambda _future: work("of first").wait())
    last = work("last")
    hold.set()
    last.wait()
    of_both.wait()
    of_first.wait()
    assert done == ["first", "second", "of first", "of both", "last"]


def test_future_that_calls_what_waits_for_a_later_operation_makes_room_for_it(queue: Any) -> None:
    hold, later = threading.Event(), list[Operation]()
    found = put(queue, lambda: hold.wait(LIMIT_SECONDS)).get_future()
    found = found.then(lambda _future: later[0].wait())
    later.append(put(queue))
    hold.set()
    assert found.wait()
    put(queue).wait()


@pytest.mark.slow
def test_future_that_calls_what_does_not_come_back_stops_nothing(queue: Any) -> None:
    asleep, wake = threading.Event(), threading.Event()
    found = put(queue, limit=SHORT_SECONDS, do=lambda: asleep.wait(0.2)).get_future()
    found = found.then(lambda _future: asleep.set() or wake.wait(LIMIT_SECONDS))
    works = [put(queue) for _ in range(3)]
    for work in works:
        work.wait()
    put(queue, is_awaited=True).wait()
    assert asleep.is_set()
    assert not found.done()
    wake.set()
    found.wait()
    put(queue).wait()


@pytest.mark.slow
def test_operations_of_what_comes_back_late_are_done(queue: Any) -> None:
    hold, wake = threading.Event(), threading.Event()
    first = put(queue, lambda: hold.wait(LIMIT_SECONDS), limit=SHORT_SECONDS).get_future()

    def late(_future: Any) -> bool:
        wake.wait(LIMIT_SECONDS)
        return put(queue).wait()

    found = first.then(late)
    hold.set()
    put(queue).wait()
    wake.set()
    assert found.wait()


def test_group_is_left_though_a_future_calls_what_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order, asleep, wake = Order("serving"), threading.Event(), threading.Event()
    hold = threading.Event()
    found = put(order, lambda: hold.wait(LIMIT_SECONDS)).get_future()
    found = found.then(lambda _future: asleep.set() or wake.wait(LIMIT_SECONDS))
    hold.set()
    assert asleep.wait(LIMIT_SECONDS)
    assert order.close(0.2)
    wake.set()
    found.wait()


def test_future_hears_of_failures_and_of_what_is_done_at_once(queue: Any) -> None:
    failing = put(queue, lambda: int("x")).get_future()
    with pytest.raises(RuntimeError, match="invalid literal"):
        failing.wait()
    done = put(queue, is_awaited=True)
    done.wait()
    assert done.get_future().wait() == []


def test_patience_is_a_part_of_short_limits() -> None:
    assert peer_wait(4) == 1
    assert peer_wait(1800) == 5
