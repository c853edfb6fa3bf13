"""A contestant's process."""

import os

import pytest

from knltrain.bench.peer_process import PeerError, PeerProcess

ECHO = """
import json, os, sys
print(json.dumps({"ready": {"cpus": sorted(os.sched_getaffinity(0)),
                            "threads": os.environ["OMP_NUM_THREADS"]}}), flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": float(line)}), flush=True)
"""


def test_runs_on_its_cpus_with_matching_threads_and_answers():
    cpu = min(os.sched_getaffinity(0))
    with PeerProcess("echo", ["-c", ECHO], [cpu]) as peer:
        peer.wait_ready()
        assert peer.ready == {"cpus": [cpu], "threads": "1"}
        assert peer.measure(0.25) == {"seconds": 0.25}


def test_one_that_fails_is_named_with_what_it_said():
    cpus = sorted(os.sched_getaffinity(0))
    with (
        PeerProcess("broken", ["-c", "raise SystemExit('no such thing')"], cpus) as peer,
        pytest.raises(PeerError, match=r"(?s)'broken' ended with exit code 1.*no such thing"),
    ):
        peer.wait_ready()


def test_one_that_dies_between_rounds_is_named():
    script = "import json; print(json.dumps({'ready': {}}), flush=True); raise SystemExit(3)"
    with PeerProcess("dying", ["-c", script], sorted(os.sched_getaffinity(0))) as peer:
        peer.wait_ready()
        with pytest.raises(PeerError, match="'dying' ended with exit code 3"):
            peer.measure(0.1)
