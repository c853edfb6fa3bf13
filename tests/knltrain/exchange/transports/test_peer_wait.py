from __future__ import annotations

import itertools
import re
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from knltrain.communication.shared_memory import process_identity
from knltrain.errors import ExchangeTimeout, PeerLost, RunAborted
from knltrain.exchange.transports.layout import HOLDER
from knltrain.exchange.transports.peer_wait import PeerWait
from knltrain.exchange.transports.segment import Segment, lost_worker


@pytest.fixture
def segment() -> Iterator[Segment]:
    created = Segment.create(10, 2)
    yield created
    created.close()


def test_what_is_there_is_not_waited_for(segment: Segment) -> None:
    segment.abort(1)
    PeerWait(segment, 0.1).wait(lambda: True, list)


@pytest.mark.parametrize(("usual", "once"), [(0.1, 0.2), (0.2, 0.1), (0.2, None)])
def test_longer_time_limit_holds(segment: Segment, usual: float, once: float | None) -> None:
    with pytest.raises(ExchangeTimeout, match=r"waited 0\.2 s in vain for worker 1"):
        PeerWait(segment, usual).wait(lambda: False, lambda: [1], once)


def test_frozen_worker_has_no_longer_time_limit_and_is_named_first(segment: Segment) -> None:
    """Where a meeting may take half an hour, and another one is late, too."""
    with subprocess.Popen(["sleep", "100"]) as frozen:
        identity = process_identity.identity_of(frozen.pid)
        assert identity is not None
        segment.words[segment.layout.state_word(1) + HOLDER] = identity
        frozen.send_signal(signal.SIGSTOP)
        host = socket.gethostname()
        named = f"worker 1 (process {frozen.pid} on host {host}) is stopped (state T): waited 0.4 s"
        with pytest.raises(ExchangeTimeout, match=f"^{re.escape(named)}"):
            PeerWait(segment, 0.4).wait(lambda: False, lambda: [0, 1], 1800)
        frozen.kill()


def test_frozen_worker_is_named_before_others_that_are_late(segment: Segment) -> None:
    with subprocess.Popen(["sleep", "100"]) as frozen:
        identity = process_identity.identity_of(frozen.pid)
        assert identity is not None
        segment.words[segment.layout.state_word(1) + HOLDER] = identity
        frozen.send_signal(signal.SIGSTOP)
        with pytest.raises(ExchangeTimeout, match=r"^worker 1 .* and for worker 0 \(has not joi"):
            PeerWait(segment, 0.05).wait(lambda: False, lambda: [0, 1])
        frozen.kill()


def test_starved_worker_has_more_time_and_is_told_so(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment.claim(1)
    delays = itertools.count()
    monkeypatch.setattr(process_identity, "run_delay_seconds", lambda identity: float(next(delays)))
    with pytest.raises(ExchangeTimeout, match=r"waited 0\.8 s in vain .*, starved of cores\)"):
        PeerWait(segment, 0.2).wait(lambda: False, lambda: [1])


@pytest.mark.parametrize(
    "code, kind, text",
    [
        (143, RunAborted, "stopped by SIGTERM"),
        (128 + 63, RunAborted, "stopped by signal 63"),
        (1, PeerLost, "another worker failed"),
        (lost_worker(1), PeerLost, "worker 1 is gone"),
    ],
)
def test_abort_code_says_why_the_run_ends(
    segment: Segment, code: int, kind: type[Exception], text: str
) -> None:
    peer_wait = PeerWait(segment, 60)
    peer_wait.check()
    segment.abort(code)
    for look in (peer_wait.check, lambda: peer_wait.wait(lambda: False, list)):
        with pytest.raises(kind, match=text):
            look()
