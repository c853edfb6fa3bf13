"""A training of knltrain itself, and what it says when it cannot go on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from knltrain.bench.nodes import ours as ours_module
from knltrain.bench.nodes.ours import KnltrainTraining
from knltrain.bench.nodes.training import Ground
from knltrain.bench.step.peer_process import PeerError
from knltrain.errors import RunAborted
from knltrain.launch.signals import signals_raise

from ...hosts import hosts_or_skip

NO_HOSTS: Any = None
ENDS_WHEN_ASKED = """
trap 'sleep 0.2; touch ended; exit' TERM
touch begun
while true; do sleep 0.01; done
"""


def test_run_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "cifar-quick", tmp_path, batch=8, steps=2)
        with pytest.raises(PeerError, match=r"gloo ended with 2: .*'sync_esgd'.*did you mean"):
            KnltrainTraining("gloo", "sync_esgd", "gloo").train(ground, tmp_path)


def test_a_run_that_is_given_up_ends_by_itself(tmp_path: Path) -> None:
    def stop() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    stopping = threading.Thread(target=stop)
    stopping.start()
    with signals_raise(), pytest.raises(RunAborted):
        ours_module.carried_out(["sh", "-c", ENDS_WHEN_ASKED], tmp_path, None)
    stopping.join()
    assert (tmp_path / "ended").exists()


def test_a_run_that_takes_too_long_is_told_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours_module, "LONGEST_SECONDS", 0.2)
    monkeypatch.setattr(ours_module, "_GRACE_SECONDS", 0.2)
    deaf = ["sh", "-c", "trap '' TERM; while true; do sleep 0.01; done"]
    monkeypatch.setattr(KnltrainTraining, "_command", lambda *_: deaf)
    ground = Ground(NO_HOSTS, [[0], [0]], "lenet", tmp_path, batch=8, steps=2)
    with pytest.raises(PeerError, match=r"gloo took more than 0\.2 s: take fewer --steps"):
        KnltrainTraining("gloo", "sync_sgd", "gloo").train(ground, tmp_path)


def test_workers_that_come_alone_communicate_in_exchanges_only(tmp_path: Path) -> None:
    costs = {"batch": 1.0, "gradient": 4.0, "update": 1.0, "center_update": 0.0}
    costs |= {"waiting": 2.0, "moving": 4.0, "rest": 8.0}
    result = {"cost_seconds": costs, "worker_steps": [1, 3], "train_seconds": 20.0}
    (tmp_path / "result.json").write_text(json.dumps(result))
    write_steps(tmp_path / "metrics-0.jsonl", (1, 5.0))
    write_steps(tmp_path / "metrics-1.jsonl", (1, 5.0), (2, 7.0), (3, 9.0))
    ground = Ground(NO_HOSTS, [[0], [0]], "lenet", tmp_path, batch=8, steps=1)
    found = KnltrainTraining("seasgd", "seasgd", "mpi")._found(ground, tmp_path)
    parts = found.communication_seconds, found.computing_seconds, found.step_seconds
    assert parts == (3.0, 3.0, 10.0)
    assert found.hidden is None
    assert found.images_per_second == 8 * (0 + 2 / 4)  # who took but one step was not timed


def write_steps(file: Path, *steps: tuple[int, float]) -> None:
    lines = [{"kind": "train", "step": step, "seconds": seconds} for step, seconds in steps]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.mark.slow
def test_traces_and_the_parts_of_a_step_are_found(tmp_path: Path) -> None:
    with hosts_or_skip(2) as made:
        ground = Ground(made, [[0], [0]], "lenet", tmp_path, batch=8, steps=6, trace_steps=2)
        found = KnltrainTraining("layerwise-gloo", "layerwise_sgd", "gloo").train(ground, tmp_path)
    assert found.images_per_second > 0
    assert [_steps(trace) for trace in found.traces] == [2, 2]
    assert found.hidden is not None
    assert 0 <= found.hidden <= 1
    parts = found.communication_seconds, found.computing_seconds, found.step_seconds
    communication, computing, step = (part or 0.0 for part in parts)
    assert min(communication, computing) > 0
    assert communication + computing <= step * (1 + 1e-6)


def _steps(trace: str) -> int:
    return sum(each["name"] == "gradient" for each in json.loads(trace)["traceEvents"])
