from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinity import allowed_cpus
from knltrain.communication.reduction import NodeReducer
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost

from ...ranks import Ranks

InRanks = Callable[..., list[Any]]
MEMBER = """
import sys, time
import numpy as np
from knltrain.communication.reduction import NodeReducer
reducer = NodeReducer.meet(sys.argv[1], 1, 2, 30)
reducer.start(np.ones(8, np.float32)).wait()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_sums_of_all_sizes_are_those_of_all_ranks_to_the_same_bits(
    in_ranks: InRanks, ranks: int
) -> None:
    sizes = 1, 77, 40_000, 300_000

    def work(reducer: NodeReducer) -> list[bytes]:
        stream = np.random.default_rng(reducer.rank)
        given = [stream.standard_normal(size).astype(np.float32) for size in sizes]
        for reduction in [reducer.start(values) for values in given]:
            reduction.wait()
        return [values.tobytes() for values in given]

    found = in_ranks(ranks, work)
    assert all(each == found[0] for each in found)
    streams = [np.random.default_rng(rank) for rank in range(ranks)]
    for size, got in zip(sizes, found[0], strict=True):
        expected = sum(stream.standard_normal(size).astype(np.float32) for stream in streams)
        np.testing.assert_allclose(np.frombuffer(got, np.float32), expected, atol=1e-5)


def test_mean_is_that_of_all_ranks(in_ranks: InRanks) -> None:
    def work(reducer: NodeReducer) -> list[float]:
        values = np.full((2, 2), reducer.rank + 1, np.float32)
        reducer.start(values, average=True).wait()
        return values.ravel().tolist()

    assert in_ranks(2, work) == [[1.5] * 4] * 2


def test_start_returns_before_another_rank_has_started(in_ranks: InRanks) -> None:
    started = threading.Event()

    def work(reducer: NodeReducer) -> float:
        values = np.ones(3, np.float32)
        if reducer.rank == 1:
            assert started.wait(20)
        reduction = reducer.start(values)
        if reducer.rank == 0:
            started.set()
        reduction.wait()
        return float(values[0])

    assert in_ranks(2, work) == [2.0, 2.0]


def test_time_that_is_told_is_that_of_the_sum_not_of_the_waiting(in_ranks: InRanks) -> None:
    done = threading.Barrier(2)

    def work(reducer: NodeReducer) -> bool:
        first, second = (reducer.start(np.ones(3, np.float32)) for _ in range(2))
        second.wait()
        done.wait(20)
        waited = time.perf_counter()
        return first.wait() < waited and first.wait() <= second.wait()

    assert in_ranks(2, work) == [True, True]


def test_rank_that_leaves_is_named_at_every_wait(in_ranks: InRanks) -> None:
    def work(reducer: NodeReducer) -> list[str]:
        if reducer.rank == 1:
            return []
        said = []
        for reduction in [reducer.start(np.ones(3, np.float32)) for _ in range(2)]:
            with pytest.raises(PeerLost) as caught:
                reduction.wait()
            said.append(str(caught.value))
        return said

    said = in_ranks(2, work)[0]
    assert said == ["rank 1 is gone: it has left the group"] * 2


@pytest.mark.slow
def test_rank_that_starts_no_sum_in_time_is_named_with_the_way_out(in_ranks: InRanks) -> None:
    given_up = threading.Event()

    def work(reducer: NodeReducer) -> str:
        if reducer.rank == 1:
            assert given_up.wait(20)
            return ""
        with pytest.raises(ExchangeTimeout) as caught:
            reducer.start(np.ones(3, np.float32)).wait()
        given_up.set()
        return str(caught.value)

    said = in_ranks(2, work, 2.0)[0]
    assert "waited 2 s in vain for rank 1 (process" in said
    assert said.endswith("give NodeReducer.meet a longer timeout_seconds")


def test_rank_whose_process_is_killed_is_named_when_waited_for(tmp_path: Path) -> None:
    program, address = tmp_path / "member.py", f"test-{secrets.token_hex(6)}"
    program.write_text(MEMBER, encoding="utf-8")
    other = Ranks([[str(program), address]])
    try:
        with closing(NodeReducer.meet(address, 0, 2, 60.0)) as reducer:
            reducer.start(np.ones(8, np.float32)).wait()
            assert other.hear(0) == "ready"
            reduction = reducer.start(np.ones(8, np.float32))
            pid = other.processes[0].pid
            os.kill(pid, signal.SIGKILL)
            other.processes[0].wait()
            with pytest.raises(PeerLost, match=f"rank 1 is gone: its process {pid} has ended"):
                reduction.wait()
    finally:
        other.end()


def test_thread_runs_where_it_was_told_to() -> None:
    cpu, address = min(allowed_cpus()), f"test-{secrets.token_hex(6)}"
    with closing(NodeReducer.meet(address, 0, 1, 20.0, [cpu])) as reducer:
        reducer.start(np.ones(3, np.float32)).wait()
        thread = next(t for t in threading.enumerate() if t.name.startswith("knltrain-reduction"))
        assert thread.native_id is not None
        assert os.sched_getaffinity(thread.native_id) == {cpu}


def test_closed_reducer_starts_nothing() -> None:
    reducer = NodeReducer.meet(f"test-{secrets.token_hex(6)}", 0, 1, 20.0)
    reducer.close()
    reducer.close()
    with pytest.raises(CollectiveError, match="a closed reducer"):
        reducer.start(np.ones(3, np.float32))


def test_sums_that_had_not_begun_are_given_up_when_it_closes() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class HeldVectors:
        rank, ranks = 0, 2

        def all_reduce(self, *_: Any) -> None:
            begun.set()
            assert go_on.wait(20)

    reducer = NodeReducer(HeldVectors(), lambda: None)  # type: ignore[arg-type]
    running, waiting = (reducer.start(np.ones(3, np.float32)) for _ in range(2))
    assert begun.wait(20)
    closer = threading.Thread(target=reducer.close)
    closer.start()
    while closer.is_alive() and not waiting._future.cancelled():  # type: ignore[attr-defined]
        time.sleep(0.001)
    go_on.set()
    closer.join(20)
    running.wait()
    with pytest.raises(CollectiveError, match="was closed before this sum began"):
        waiting.wait()
