"""Processes that are asked at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from knltrain.bench.answers import answers_of
from knltrain.bench.step import peer_process
from knltrain.bench.step.peer_process import PeerError, PeerProcess

MEMBER = """
import json, sys, time
print(json.dumps({"ready": {}}), flush=True)
me = int(sys.argv[1])
for line in sys.stdin:
    question = json.loads(line)
    if question == "die" and me == 1:
        sys.exit("no more")
    if question in ("die", "hang"):
        time.sleep(600)
    print(json.dumps({"me": me}), flush=True)
"""


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PeerProcess]]:
    monkeypatch.setattr(peer_process, "END_SECONDS", 0.1)
    cpus = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        made = [PeerProcess(f"number {n}", ["-c", MEMBER, str(n)], cpus) for n in range(3)]
        for process in made:
            stack.enter_context(process)
        for process in made:
            process.wait_ready()
        yield made


def test_answers_come_in_the_order_of_the_processes(three: list[PeerProcess]) -> None:
    assert answers_of(three, 7, 60.0) == [{"me": 0}, {"me": 1}, {"me": 2}]


def test_one_that_ends_is_told_though_the_first_answers_never(three: list[PeerProcess]) -> None:
    begin = time.monotonic()
    with pytest.raises(PeerError, match="'number 1' ended with exit code 1: no more"):
        answers_of(three, "die", 600.0)
    assert time.monotonic() - begin < 60


def test_those_that_stay_silent_are_named(three: list[PeerProcess]) -> None:
    with pytest.raises(PeerError, match=r"no answer to 'hang' for 0\.1 s: number 0, number 1"):
        answers_of(three, "hang", 0.1)
