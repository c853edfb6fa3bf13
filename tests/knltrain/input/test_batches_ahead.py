"""A worker that takes batches of its ring, and what it does while it waits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from knltrain.communication.shared_memory.process_identity import identity_of
from knltrain.errors import DataError, KnltrainError, PeerLost, RunAborted
from knltrain.input import batches_ahead
from knltrain.input.batch_ring import CLOSED, BatchRing
from knltrain.input.batches_ahead import BatchesAhead

from .conftest import MakeRing


def feed_of(ring: BatchRing, limit_seconds: float = 20.0) -> BatchesAhead:
    return BatchesAhead(ring, 0, 2, lambda: None, limit_seconds)


def test_batches_are_taken_as_views_and_given_back(make_ring: MakeRing) -> None:
    ring = make_ring()
    feed = feed_of(ring)
    assert ring.wanted(0) is None
    feed.begin(3)
    assert ring.wanted(0) == 6
    for number in (6, 7):
        ring.batch(0, number).images_nhwc.fill(number)
        ring.put(0, number)
    assert (feed.take(3, 0).images_nhwc == 6).all()
    assert feed.take(3, 0) is ring.batch(0, 6)  # again, as after the rehearsal
    assert ring.wanted(0) == 6
    feed.give_back()
    assert ring.wanted(0) == 7
    assert feed.take(3, 1) is ring.batch(0, 7)
    assert ring.wanted(0) == 7


def test_the_batch_that_follows_is_seen_when_it_is_there(make_ring: MakeRing) -> None:
    ring = make_ring()
    feed = feed_of(ring)
    feed.begin(3)
    ring.put(0, 6)
    feed.take(3, 0)
    assert feed.following(3, 0) is None
    ring.put(0, 7)
    assert feed.following(3, 0) is ring.batch(0, 7)
    feed.give_back()
    feed.take(3, 1)
    assert feed.following(3, 1) is None  # its slot still has the one before


def test_a_worker_that_leaves_says_so(make_ring: MakeRing) -> None:
    ring = make_ring()
    own = BatchRing(os.dup(ring.fd), 1, 2, ring._shape)
    feed = feed_of(own)
    feed.begin(0)
    feed.close()
    feed.close()
    assert ring.wanted(0) == CLOSED
    assert own.fd == -1


def test_a_batch_is_waited_for(make_ring: MakeRing) -> None:
    ring = make_ring()
    feed = feed_of(ring)
    feed.begin(0)
    begun = time.monotonic()
    threading.Timer(0.1, ring.put, (0, 0)).start()
    feed.take(0)
    assert time.monotonic() - begun >= 0.09


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (1, PeerLost, "a worker or the data pool failed"),
        (143, RunAborted, "stopped by SIGTERM"),
        (-3, PeerLost, "failed"),
    ],
)
def test_an_abort_ends_the_waiting_at_once(
    make_ring: MakeRing, code: int, kind: type[KnltrainError], words: str
) -> None:
    ring = make_ring()
    feed = feed_of(ring)
    feed.begin(0)
    threading.Timer(0.05, ring.abort, (code,)).start()
    begun = time.monotonic()
    with pytest.raises(kind, match=words):
        feed.take(0)
    assert time.monotonic() - begun < 5


def test_what_the_team_raises_ends_the_waiting(make_ring: MakeRing) -> None:
    def check() -> None:
        raise RunAborted("the run was stopped by SIGINT")

    feed = BatchesAhead(make_ring(), 0, 1, check, 20.0)
    feed.begin(0)
    with pytest.raises(RunAborted, match="SIGINT"):
        feed.take(0)


def test_the_end_of_the_pool_ends_the_waiting(make_ring: MakeRing) -> None:
    ring = make_ring()
    feed = feed_of(ring)
    feed.begin(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as pool:
        identity = identity_of(pool.pid)
        assert identity is not None
        ring._store(batch_ring_pool_word(), identity)
        threading.Timer(0.1, pool.kill).start()
        with pytest.raises(PeerLost, match=f"its process {pool.pid} has ended"):
            feed.take(0)


def batch_ring_pool_word() -> int:
    from knltrain.input import batch_ring

    return batch_ring._POOL * batch_ring._LINE_WORDS


def test_a_batch_that_does_not_come_is_an_error_with_the_step(
    make_ring: MakeRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = make_ring()
    feed = feed_of(ring, limit_seconds=0.05)
    monkeypatch.setattr(batches_ahead, "FIRST_SECONDS", 0.2)
    feed.begin(2)
    with pytest.raises(DataError, match=r"waited 0\.2 s in vain for the images of step 2: .*there"):
        feed.take(2)
    ring.put(0, 4)
    feed.take(2)
    feed.give_back()
    ring.serve()
    with pytest.raises(DataError, match=r"waited 0\.05 s .*process \d+ on host .*, running"):
        feed.take(2, 1)
