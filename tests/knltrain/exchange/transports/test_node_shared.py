"""What happens to workers when one of them is late, frozen, killed, or the run is stopped."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from knltrain.errors import SegmentError
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment


def wait_until(condition: Any) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the awaited condition did not come true within 20 s")


def sleeping(process_id: int) -> bool:
    """Whether a waiting worker has come as far as naps."""
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_killed_worker_is_reported_by_all_others(start: Any) -> None:
    peers = start("late_last", 3)
    assert peers.hear(2) == "asleep"
    peers.processes[2].kill()  # Left as a zombie on purpose: nobody has asked for its end.
    for rank in (0, 1):
        kind, text = peers.error(rank)
        assert kind == "PeerLost"
        assert text.startswith("worker 2 is gone")


@pytest.mark.slow
def test_frozen_worker_is_named_when_time_is_up(start: Any) -> None:
    peers = start("late_last", 2, argument="0.6")
    assert peers.hear(1) == "asleep"
    peers.processes[1].send_signal(signal.SIGSTOP)
    kind, text = peers.error(0)
    assert kind == "ExchangeTimeout"
    named = f"worker 1 (process {peers.processes[1].pid} on host {socket.gethostname()})"
    assert text.startswith(f"{named} is stopped (state T): waited 0.6 s in vain for it; ")


@pytest.mark.parametrize("code, kind, exit_code", [(143, "RunAborted", 143), (1, "PeerLost", 1)])
def test_abort_by_the_parent_wakes_waiting_workers(
    start: Any, code: int, kind: str, exit_code: int
) -> None:
    peers = start("late_last", 2)
    assert peers.hear(0) == "waiting"
    wait_until(lambda: sleeping(peers.processes[0].pid))
    start.segments[-1].abort(code)
    assert peers.error(0)[0] == kind
    assert peers.result(0)["exit_code"] == exit_code


@pytest.mark.slow
def test_suspension_of_the_whole_job_does_not_count_as_waiting(start: Any) -> None:
    peers = start("late_but_comes", 2, argument="8")
    assert [peers.hear(rank) for rank in (0, 1)] == ["waiting", "waiting"]
    wait_until(lambda: sleeping(peers.processes[0].pid))
    for process in peers.processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(8.3)
    for process in peers.processes:
        process.send_signal(signal.SIGCONT)
    assert [result.get("error") for result in peers.results()] == [None, None]


def test_rank_of_a_living_process_cannot_be_claimed_again() -> None:
    segment = Segment.create(10, 2)
    transport = NodeShared(segment, 0)
    with pytest.raises(SegmentError, match=f"worker 0 already runs as process {os.getpid()}"):
        NodeShared(segment, 0)
    transport.close()


def test_rank_outside_the_segment_is_refused() -> None:
    segment = Segment.create(10, 2)
    with pytest.raises(SegmentError, match="rank 2: expected 0 to 1"):
        NodeShared(segment, 2)
    segment.close()
