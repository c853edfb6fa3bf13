from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from knltrain.communication.shared_memory import process_identity
from knltrain.errors import ExchangeTimeout, PeerLost
from knltrain.exchange.transports.barrier import Barrier
from knltrain.exchange.transports.layout import HOLDER
from knltrain.exchange.transports.peer_wait import PeerWait
from knltrain.exchange.transports.segment import Segment, lost_worker


@pytest.fixture
def segment() -> Iterator[Segment]:
    created = Segment.create(10, 2)
    created.claim(0)
    yield created
    created.close()


@pytest.fixture
def ended() -> int:
    """Identity of a process that is gone."""
    with subprocess.Popen(["sleep", "100"]) as child:
        identity = process_identity.identity_of(child.pid)
        child.kill()
    assert identity is not None
    return identity


def hold(segment: Segment, rank: int, identity: int) -> None:
    segment.words[segment.layout.state_word(rank) + HOLDER] = identity


def test_worker_that_never_joined_is_named_when_time_is_up(segment: Segment) -> None:
    with pytest.raises(ExchangeTimeout, match=r"0\.2 s in vain for worker 1 \(has not joined\)"):
        Barrier(segment, 0, PeerWait(segment, 0.2)).wait()


def test_worker_that_runs_but_does_not_come_is_named_when_time_is_up(segment: Segment) -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        identity = process_identity.identity_of(child.pid)
        assert identity is not None
        hold(segment, 1, identity)
        with pytest.raises(
            ExchangeTimeout, match=rf"worker 1 \(process {child.pid} on host \S+, running\)"
        ):
            Barrier(segment, 0, PeerWait(segment, 0.3)).wait()
        child.kill()


def test_long_wait_leaves_the_core_to_others(segment: Segment) -> None:
    begin, begin_busy = time.monotonic(), time.thread_time()
    with pytest.raises(ExchangeTimeout):
        Barrier(segment, 0, PeerWait(segment, 0.4)).wait()
    busy = time.thread_time() - begin_busy
    assert busy < 0.5 * (time.monotonic() - begin)


def test_ended_worker_is_lost_and_the_others_are_told(segment: Segment, ended: int) -> None:
    hold(segment, 1, ended)
    lost = f"worker 1 is gone: its process {process_identity.process_id(ended)} has ended"
    with pytest.raises(PeerLost, match=lost):
        Barrier(segment, 0, PeerWait(segment, 60)).wait()
    assert segment.abort_word[0] == lost_worker(1)


def test_worker_that_comes_and_ends_while_it_is_looked_for_is_not_lost(
    segment: Segment, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def come_and_end(identity: int) -> bool:
        segment.sequences[1] = 1
        return False

    hold(segment, 1, ended)
    monkeypatch.setattr(process_identity, "is_alive", come_and_end)
    Barrier(segment, 0, PeerWait(segment, 60)).wait()
    assert segment.abort_word[0] == 0


def test_worker_that_comes_while_the_other_sleeps_is_noticed(segment: Segment) -> None:
    def come() -> None:
        time.sleep(0.05)
        segment.sequences[1] = 1

    with_peer = threading.Thread(target=come)
    with_peer.start()
    Barrier(segment, 0, PeerWait(segment, 60)).wait()
    with_peer.join()
