"""Several processes as one contestant."""

import os
import time

import pytest

from knltrain.bench.step.contestant import Contestant
from knltrain.bench.step.peer_process import PeerProcess

SLEEPS = """
import json, os, sys, time
print(json.dumps({"ready": {"pid": os.getpid()}}), flush=True)
for line in sys.stdin:
    time.sleep(float(line))
    print(json.dumps({"steps": 3, "seconds": 1.5}), flush=True)
"""


def test_processes_work_at_the_same_time_and_their_speeds_add_up(cpu):
    with (
        PeerProcess("one", ["-c", SLEEPS], [cpu]) as one,
        PeerProcess("other", ["-c", SLEEPS], [cpu]) as other,
    ):
        contestant = Contestant("both", [one, other])
        contestant.wait_ready()
        assert contestant.ready == one.ready
        assert one.ready["pid"] != other.ready["pid"]
        began = time.monotonic()
        assert contestant.steps_per_second(0.5) == pytest.approx(4.0)
        assert time.monotonic() - began < 1.0  # one after the other would take at least that
        assert contestant.peak_bytes == one.peak_bytes + other.peak_bytes > 0


@pytest.fixture
def cpu():
    return min(os.sched_getaffinity(0))
