from __future__ import annotations

import threading

import pytest

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.order import Order
from knltrain.torch_distributed.work import Operation


def test_awaited_work_is_done_at_once_and_behind_what_came_before() -> None:
    order, begin, threads = Order("threads"), threading.Event(), []

    def note() -> None:
        threads.append(threading.current_thread().name)

    def hold() -> None:
        begin.wait(10)
        note()

    order.put(Operation([], note), is_awaited=True, limit=1)
    assert len(threads) == 1
    order.put(Operation([], hold), is_awaited=False, limit=1)
    last = order.put(Operation([], note), is_awaited=True, limit=1)
    assert not last.is_completed()
    begin.set()
    last.wait()
    assert threads == [threading.current_thread().name, "threads", "threads"]
    assert order.close(10)


def test_close_lets_work_finish_and_takes_no_more() -> None:
    order, begin = Order("threads"), threading.Event()
    operation = order.put(Operation([], lambda: begin.wait(10) and None), is_awaited=False, limit=1)
    assert not order.close(0.05)
    begin.set()
    assert order.close(10)
    assert operation.is_success()
    for is_awaited in (True, False):
        with pytest.raises(CollectiveError, match="was destroyed"):
            order.put(Operation([]), is_awaited, 1)
