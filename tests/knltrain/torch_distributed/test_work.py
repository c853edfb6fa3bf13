from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch

from knltrain.errors import ExchangeTimeout, PeerLost
from knltrain.torch_distributed.work import Operation


def fail() -> None:
    raise PeerLost("rank 1 is gone")


def test_results_are_there_when_it_is_done() -> None:
    tensors = [torch.ones(2)]
    operation = Operation(tensors)
    early = operation.get_future()
    assert not operation.is_completed()
    assert not early.done()
    operation.finish(source=3)
    assert operation.wait()
    assert operation.result() is tensors
    assert (operation.is_completed(), operation.is_success()) == (True, True)
    assert operation._source_rank() == 3
    for future in (early, operation.get_future()):
        assert torch.equal(future.wait()[0], tensors[0])


def test_error_is_raised_as_it_was_and_as_text_by_the_future() -> None:
    operation = Operation([], fail)
    early = operation.get_future()
    operation.run()
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        operation.wait()
    for future in (early, operation.get_future()):
        with pytest.raises(RuntimeError, match="PeerLost: rank 1 is gone"):
            future.wait()
    assert isinstance(operation.exception(), PeerLost)
    assert not operation.is_success()


def test_many_may_wait() -> None:
    operation = Operation([])
    waiting = [threading.Thread(target=operation.wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    operation.run()
    for thread in waiting:
        thread.join(10)
        assert not thread.is_alive()


def test_waiting_may_have_a_time_limit() -> None:
    operation = Operation([])
    with pytest.raises(ExchangeTimeout, match=r"0\.05 s"):
        operation.wait(timedelta(seconds=0.05))
    operation.finish()
    assert operation.wait(timedelta(seconds=0.05))


def test_what_is_said_first_of_an_operation_holds() -> None:
    operation = Operation([], lambda: None)
    operation.finish(ValueError("first"))
    operation.run()
    with pytest.raises(ValueError, match="first"):
        operation.wait()
