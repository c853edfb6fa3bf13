"""The processes of a contestant, asked all at once."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from knltrain.bench.exchange import crew as crew_module
from knltrain.bench.exchange.crew import assembled
from knltrain.bench.step.peer_process import PeerError, PeerProcess

MEMBER = """
import json, os, sys, time
print(json.dumps({"ready": {"version": "v1"}}), flush=True)
me = int(sys.argv[1])
for line in sys.stdin:
    question = json.loads(line)
    answer = {}
    if question["do"] == "token":
        answer = {"token": str(os.getpid())}
    elif question["do"] == "join" and me == 0:
        assert question["token"] == str(os.getpid())
    elif question["do"] == "run":
        if question["operation"] == "die" and me == 1:
            sys.exit("no more")
        if question["operation"] in ("die", "hang"):
            time.sleep(600)
        answer = {"begin": 10.0 + me, "end": 16.0 + me}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def stack():
    with ExitStack() as open_ones:
        yield open_ones


def crew_of(stack, count):
    cpus = sorted(os.sched_getaffinity(0))
    processes = [PeerProcess("two", ["-c", MEMBER, str(n)], cpus) for n in range(count)]
    return assembled(stack, "two", processes), processes


def states(processes):
    pids = [process._process.pid for process in processes]
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids]


def settled(processes, state):
    """The states of processes, as soon as all have the expected one, or after a while."""
    for _ in range(100):
        if states(processes) == [state] * len(processes):
            break
        time.sleep(0.01)
    return states(processes)


def test_time_is_from_the_first_begin_to_the_last_end(stack):
    crew, _ = crew_of(stack, 2)
    assert crew.version == "v1"
    crew.hold("a", [1])
    assert crew.seconds("a", "exchange", 7) == 1.0  # 10 to 17
    assert crew.seconds("a", "exchange", 6, members=1) == 1.0  # 10 to 16
    crew.drop("a")


def test_who_is_not_asked_is_suspended(stack):
    crew, processes = crew_of(stack, 2)
    assert settled(processes, "T") == ["T", "T"]
    crew.seconds("a", "exchange", 1)
    assert settled(processes, "T") == ["T", "T"]


def test_one_that_ends_is_named_though_the_others_wait_for_it(stack, monkeypatch):
    crew, _ = crew_of(stack, 2)
    monkeypatch.setattr("knltrain.bench.step.peer_process.END_SECONDS", 0.1)
    start = time.monotonic()
    with pytest.raises(PeerError, match="contestant 'two' ended with exit code 1: no more"):
        crew.seconds("a", "die", 1)
    assert time.monotonic() - start < 60
    stack.close()


def test_one_that_hangs_is_told_so(stack, monkeypatch):
    crew, _ = crew_of(stack, 1)
    monkeypatch.setattr(crew_module, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr("knltrain.bench.step.peer_process.END_SECONDS", 0.1)
    with pytest.raises(PeerError, match=r"'two' has not answered for 0\.1 s when .* asked to run"):
        crew.seconds("a", "hang", 1)
    stack.close()
