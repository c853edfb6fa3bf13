"""A contestant's process."""

import os
import select
from pathlib import Path

import pytest

from knltrain.bench.step import peer_process
from knltrain.bench.step.peer_process import PeerError, PeerProcess

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


def test_another_python_and_further_variables_can_be_given(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "{\\"ready\\": \\"$OMP_NUM_THREADS $KIND $1\\"}"\n')
    python.chmod(0o755)
    cpu = min(os.sched_getaffinity(0))
    with PeerProcess(
        "other", ["first"], [cpu], python=str(python), environment={"KIND": "odd"}
    ) as peer:
        peer.wait_ready()
        assert peer.ready == "1 odd first"


DYING = """
import json, os
os.close(0)  # so that whatever it is asked meets a broken pipe
print(json.dumps({"ready": {"pid": os.getpid()}}), flush=True)
raise SystemExit(3)
"""

GROWS = """
import json, sys
print(json.dumps({"ready": {}}), flush=True)
for line in sys.stdin:
    b"x" * (int(float(line)) << 20)
    print(json.dumps({}), flush=True)
"""


def test_memory_taken_and_given_back_before_it_was_warm_does_not_count():
    once = f"b'x' * (256 << 20)\n{GROWS}"
    with PeerProcess("lighter", ["-c", once], sorted(os.sched_getaffinity(0))) as peer:
        peer.wait_ready()
        assert peer.peak_bytes < 128 << 20


def test_peak_memory_is_the_most_that_was_held_at_once():
    with PeerProcess("growing", ["-c", GROWS], sorted(os.sched_getaffinity(0))) as peer:
        peer.wait_ready()
        before = peer.peak_bytes
        for mebibytes in (64, 1):
            peer.measure(mebibytes)
        assert 64 << 20 <= peer.peak_bytes - before + (8 << 20) < 96 << 20


def test_peak_memory_of_one_that_ended_tells_how_it_ended():
    with PeerProcess("dying", ["-c", DYING], sorted(os.sched_getaffinity(0))) as peer:
        peer.wait_ready()
        with pytest.raises(PeerError, match="'dying' ended with exit code 3"):
            _ = [peer.peak_bytes for _ in range(10**6)]


def test_one_that_fails_is_named_with_what_it_said():
    cpus = sorted(os.sched_getaffinity(0))
    with (
        PeerProcess("broken", ["-c", "raise SystemExit('no such thing')"], cpus) as peer,
        pytest.raises(PeerError, match=r"(?s)'broken' ended with exit code 1.*no such thing"),
    ):
        peer.wait_ready()


def test_one_that_is_killed_is_said_to_want_more_memory():
    ends = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with (
        PeerProcess("large", ["-c", ends], sorted(os.sched_getaffinity(0))) as peer,
        pytest.raises(PeerError, match=r"'large' was killed.*memory runs out: compare with fewer"),
    ):
        peer.wait_ready()


def test_one_that_dies_between_rounds_is_named_and_leaves_nothing_behind():
    before = open_files()
    with PeerProcess("dying", ["-c", DYING], sorted(os.sched_getaffinity(0))) as peer:
        peer.wait_ready()
        with pytest.raises(PeerError, match="'dying' ended with exit code 3"):
            peer.measure(0.1)
    assert open_files() == before
    peer.close()  # as often as one likes


def test_one_that_died_unheard_is_waited_for():
    before = open_files()
    with PeerProcess("dying", ["-c", DYING], sorted(os.sched_getaffinity(0))) as peer:
        peer.wait_ready()
        peer.ask(0.1)
    assert open_files() == before
    assert not Path(f"/proc/{peer.ready['pid']}").exists()


def test_one_that_does_not_end_with_its_input_is_killed(monkeypatch):
    monkeypatch.setattr(peer_process, "END_SECONDS", 0.1)
    stays = """
import json, os, time
print(json.dumps({"ready": {"pid": os.getpid()}}), flush=True)
time.sleep(600)
"""
    before = open_files()
    with PeerProcess("deaf", ["-c", stays], sorted(os.sched_getaffinity(0))) as peer:
        peer.wait_ready()
    assert open_files() == before
    assert not Path(f"/proc/{peer.ready['pid']}").exists()


def test_one_that_cannot_be_started_leaves_nothing_open():
    before = open_files()
    with pytest.raises(ValueError, match="null byte"):
        PeerProcess("impossible", ["\0"], sorted(os.sched_getaffinity(0)))
    assert open_files() == before


def open_files():
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


def test_one_that_is_suspended_answers_when_it_goes_on_and_can_be_ended():
    cpus = sorted(os.sched_getaffinity(0))
    with PeerProcess("echo", ["-c", ECHO], cpus) as peer:
        peer.wait_ready()
        peer.suspend()
        peer.ask(0.5)
        assert select.select([peer], [], [], 0.2)[0] == []
        peer.resume()
        assert peer.answer() == {"seconds": 0.5}
        peer.suspend()
    assert peer._process.returncode == 0


def test_descriptors_that_it_is_to_inherit_are_open_in_it():
    ready, write = os.pipe()
    say = f"import os; os.write({write}, b'here'); print('{{\"ready\": 1}}')"
    with PeerProcess(
        "writer", ["-c", say], [min(os.sched_getaffinity(0))], pass_fds=[write]
    ) as peer:
        peer.wait_ready()
        assert os.read(ready, 4) == b"here"
    os.close(ready), os.close(write)
