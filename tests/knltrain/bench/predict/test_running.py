"""Trainings that are timed while they go on."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knltrain.bench.exchange.cores import cores_of
from knltrain.bench.predict import running as running_module
from knltrain.bench.predict.running import Running, running
from knltrain.bench.predict.steps import Ground, configuration
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig

from ...hosts import hosts_or_skip


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def _write(run: Path, rank: int, *records: tuple[int, float]) -> None:
    with (run / f"metrics-{rank}.jsonl").open("a", encoding="utf-8") as file:
        for step, seconds in records:
            file.write(json.dumps({"kind": "train", "step": step, "seconds": seconds}) + "\n")
            file.write(json.dumps({"kind": "test", "step": step, "seconds": seconds}) + "\n")


def test_steps_count_from_the_second_record_on_of_each_worker(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One takes a step in 10 ms, the other in 30 ms; what is before took seconds."""
    before = [(1, 5.0), (2, 9.0)]
    for rank in (0, 1):
        _write(tmp_path, rank, *before)
    looked = threading.Event()
    monkeypatch.setattr(Running, "_rest", lambda *_: (looked.set(), time.sleep(0.01)))

    def train() -> None:
        assert looked.wait(20)
        for rank, pace in ((0, 0.01), (1, 0.03)):
            later = [(3, 13.0), *((10 * each, 14.0 + 10 * each * pace) for each in range(1, 15))]
            _write(tmp_path, rank, *later)

    training = threading.Thread(target=train)
    training.start()
    found = Running(sleeper, tmp_path, 2).seconds_of_step(100)
    training.join()
    assert found == pytest.approx((0.01 + 0.03) / 2)


def test_a_step_is_awaited_by_all_workers_and_not_for_ever(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_module, "_LONGEST_SECONDS", 0.2)
    _write(tmp_path, 0, (1, 0.1), (30, 0.4))
    _write(tmp_path, 1, (1, 0.1), (20, 0.4))
    found = Running(sleeper, tmp_path, 2)
    found.await_step(20)
    with pytest.raises(PeerError, match=r"not so many steps in 0\.2 s: take fewer --steps"):
        found.await_step(21)
    with pytest.raises(PeerError, match=r"not so many steps in 0\.2 s"):
        found.seconds_of_step(8)


def _run(nodes: int, **more: Any) -> RunConfig:
    found = configuration("lenet", "sync_sgd", nodes, 2, 8, 20)
    rate = found.learning_rate.model_copy(update=more)
    return found.model_copy(update={"learning_rate": rate})


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_a_training_goes_on_while_its_link_changes(tmp_path: Path) -> None:
    """1.7 MB a step take 70 ms at 0.2 Gbit/s."""
    with (
        hosts_or_skip(2) as made,
        running(_run(2), Ground(made, cores_of(2)), tmp_path) as training,
    ):
        training.await_step(4)
        made.limit(0.2)
        slow = training.seconds_of_step(8)
        made.limit(40)
        assert training.seconds_of_step(8) < slow / 2
        assert training.computing.size == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_a_training_that_fails_is_told_and_leaves_no_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(PeerError, match="is not finite"),
        running(_run(1, base=1e30), Ground(None, cores_of(2)), tmp_path) as training,
    ):
        training.await_step(100)
    assert not list(tmp_path.iterdir())


def test_a_training_that_does_not_end_as_asked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_module, "_GRACE_SECONDS", 0.2)
    ways = {"echo broken >&2; exit 3": "^broken$", "trap '' TERM; while true; do :; done": "-9"}
    for way, expected in ways.items():
        monkeypatch.setattr(running_module, "command_of", lambda *_, way=way: ["sh", "-c", way])
        with (
            pytest.raises(PeerError, match=expected),
            running(_run(1), Ground(None, cores_of(2)), tmp_path),
        ):
            time.sleep(0.1)
        assert not list(tmp_path.iterdir())
