from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain.communication.collectives import Group
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError, PeerLost
from vectorized_ops.reference.reduction import MAX

InRanks = Callable[..., list[Any]]


def error_of(work: Callable[[], object]) -> KnltrainError:
    with pytest.raises(KnltrainError) as caught:
        work()
    return caught.value


def test_late_rank_is_waited_for(in_ranks: InRanks) -> None:
    def work(group: Group) -> int:
        if group.rank == 1:
            time.sleep(0.3)
        value = np.array([group.rank])
        group.all_reduce(int(value.ctypes.data), 1, "int64", MAX)
        return int(value[0])

    assert in_ranks(2, work) == [1, 1]


def test_ranks_that_call_different_operations_learn_what_the_others_called(
    in_ranks: InRanks,
) -> None:
    def work(group: Group) -> tuple[str, str]:
        value = np.zeros(4)
        address = int(value.ctypes.data)

        def call() -> None:
            if group.rank == 0:
                group.all_reduce(address, 4, "float64", MAX)
            else:
                group.broadcast((address, 8), 1)

        return str(error_of(call)), type(error_of(group.barrier)).__name__

    for text, later in in_ranks(2, work):
        assert "rank 0 called all_reduce of 4 float64 (max)" in text or "rank 0 found" in text
        assert later == CollectiveError.__name__


def test_operation_may_have_a_time_limit_of_its_own(in_ranks: InRanks) -> None:
    def work(group: Group) -> str:
        if group.rank == 1:
            return ""
        return str(error_of(lambda: group.barrier(0.2)))

    found = in_ranks(2, work, 60.0)
    assert found[0].startswith("waited 0.2 s in vain for rank 1")


def test_time_limit_of_the_group_holds_else(in_ranks: InRanks) -> None:
    def work(group: Group) -> KnltrainError | None:
        return error_of(group.barrier) if group.rank == 0 else None

    assert isinstance(in_ranks(2, work, 0.2)[0], ExchangeTimeout)


def test_interruption_in_the_middle_breaks_the_group(
    in_ranks: InRanks, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def work(group: Group) -> str:
        if group.rank == 0:
            monkeypatch.setattr(group._steps, "_await", interrupt)
            with pytest.raises(KeyboardInterrupt):
                group.barrier()
            interrupted.set()
            return ""
        assert interrupted.wait(60.0)
        return type(error_of(group.barrier)).__name__

    assert in_ranks(2, work) == ["", PeerLost.__name__]
