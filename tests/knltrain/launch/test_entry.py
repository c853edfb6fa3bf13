"""A worker process by itself: a run of one, told through a real pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from affinity import MemoryPlan, Placement, allowed_cpus
from affinity.process.own import encode_placement
from knltrain.cluster.worker import WorkerIdentity
from knltrain.data.source import SKIPPED
from knltrain.errors import DataError
from knltrain.exchange.transports.board import LINE_WORDS, LossBoard, RunLoss
from knltrain.launch import entry, events
from knltrain.launch.events import EventReader, EventWriter
from knltrain.worker.loop import Worker
from vectorized_ops.numba.compiling.journal import MadeKernel, Tuning

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "knltrain.launch.entry")


def _run(
    folder: Path, toml: str, place: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str, list[dict[str, Any]]]:
    (folder / "config.toml").write_text(toml)
    read_fd, write_fd = os.pipe()
    identity = WorkerIdentity(0, 1, folder, write_fd, (), 1, False)
    done = subprocess.run(
        COMMAND,
        env={**os.environ, "PYTHONPATH": str(ROOT), **identity.to_environment(), **place},
        pass_fds=(write_fd,),
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    os.close(write_fd)
    reader = EventReader(read_fd)
    events = reader.read()
    reader.close()
    return done.returncode, done.stderr, events


@pytest.mark.slow
def test_a_worker_tells_progress_evaluation_place_and_result(tmp_path: Path, run_toml: str) -> None:
    toml = run_toml.replace("workers = 2", "workers = 1")
    code, log, events = _run(tmp_path, toml)
    assert (code, log) == (0, "")
    by_kind = {event["event"]: event for event in events}
    assert (by_kind["progress"]["step"], by_kind["progress"]["total"]) == (12, 12)
    assert [e["step"] for e in events if e["event"] == "evaluation"] == [6, 12]
    assert by_kind["placement"]["got"]["threads"]
    assert events[-1]["event"] == "done"
    assert events[-1]["result"]["steps"] == 12
    assert events[-1]["result"]["test_accuracy"] == by_kind["evaluation"]["accuracy"]


def test_a_worker_that_cannot_be_built_tells_why_and_logs_where(
    tmp_path: Path, run_toml: str
) -> None:
    code, log, events = _run(tmp_path, run_toml.replace('"lenet"', '"lenett"'))
    assert code == 2
    [error] = events
    assert (error["event"], error["kind"], error["step"]) == ("error", "ConfigError", None)
    assert "did you mean 'lenet'" in error["message"]
    assert error["exit_code"] == 2
    assert log.startswith("Traceback")


@pytest.mark.parametrize(("kept_step", "kept"), [(None, False), (6, False), (9, True)])
def test_worker_that_stops_tells_whether_there_is_a_checkpoint_of_that_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_step: int | None, kept: bool
) -> None:
    read_fd, write_fd = os.pipe()
    identity = WorkerIdentity(1, 2, tmp_path, write_fd, (), 1, False)
    for name, value in identity.to_environment().items():
        monkeypatch.setenv(name, value)

    def stop(identity: WorkerIdentity, observer: entry.ParentObserver) -> None:
        if kept_step is not None:
            observer.kept(_at(kept_step), 0.1)
        observer.asked(_at(9))

    monkeypatch.setattr(entry, "_train", stop)
    assert entry.main() == 0
    os.close(write_fd)
    reader = EventReader(read_fd)
    [event] = reader.read()
    reader.close()
    assert (event["event"], event["step"], event["kept"]) == ("stopped", 9, kept)


def test_a_worker_names_the_broken_pictures_that_it_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_fd, write_fd = os.pipe()
    identity = WorkerIdentity(1, 2, tmp_path, write_fd, (), 1, False)
    for name, value in identity.to_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(SKIPPED, "reasons", {})
    monkeypatch.setattr(events, "MOST_SKIPPED_TOLD", 2)

    def skip(identity: WorkerIdentity, observer: entry.ParentObserver) -> None:
        SKIPPED.add({name: f"{name}: is empty" for name in ("a.jpg", "b.jpg", "c.jpg")})

    monkeypatch.setattr(entry, "_train", skip)
    assert entry.main() == 0
    os.close(write_fd)
    reader = EventReader(read_fd)
    skipped, stopped = reader.read()
    reader.close()
    assert skipped["pictures"] == {"a.jpg": "a.jpg: is empty", "b.jpg": "b.jpg: is empty"}
    assert (skipped["event"], stopped["event"]) == ("skipped", "stopped")


def _at(step: int) -> Worker:
    return cast(Worker, SimpleNamespace(progress=SimpleNamespace(step=step)))


def test_the_loss_that_is_told_is_that_of_all_workers() -> None:
    board = LossBoard(np.zeros((3, LINE_WORDS), np.int64))
    own, other = RunLoss(board, 0), RunLoss(board, 1)
    told: list[float] = []

    class Events:
        def send(self, kind: str, **facts: Any) -> None:
            told.append(facts["loss"])

        def progress_is_due(self, *, last: bool) -> bool:
            return not last

    observer = entry.ParentObserver(cast(EventWriter, Events()), 0)
    progress = SimpleNamespace(step=1, total_steps=2, ended=False)
    clocks = SimpleNamespace(train_seconds=0.0, batch=SimpleNamespace(seconds=0.0))
    worker = SimpleNamespace(run_loss=own, step=0, images_done=0, clocks=clocks, progress=progress)
    observer._placement_told = True
    observer.started(cast(Worker, worker))
    own.computed(0, 1.0, 30)
    other.computed(0, 5.0, 10)
    worker.images_done, clocks.train_seconds = 30, 1.0
    observer.step_done(cast(Worker, worker), 0, 1.0)
    assert told == [2.0]


def test_an_unforeseen_error_is_told_with_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_fd, write_fd = os.pipe()
    identity = WorkerIdentity(0, 1, tmp_path, write_fd, (), 1, False)
    for name, value in identity.to_environment().items():
        monkeypatch.setenv(name, value)

    def fail(identity: WorkerIdentity, observer: entry.ParentObserver) -> None:
        observer.step = 4
        raise KeyError("velocity")

    monkeypatch.setattr(entry, "_train", fail)
    assert entry.main() == 1
    os.close(write_fd)
    reader = EventReader(read_fd)
    [error] = reader.read()
    reader.close()
    assert (error["kind"], error["step"], error["exit_code"]) == ("KeyError", 4, 1)
    assert error["message"] == "KeyError: 'velocity'"
    assert "Traceback" in capsys.readouterr().err


def test_the_error_is_told_before_the_worker_is_closed(
    tmp_path: Path, run_toml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text(run_toml.replace("workers = 2", "workers = 1"))
    read_fd, write_fd = os.pipe()
    reader = EventReader(read_fd)
    identity = WorkerIdentity(0, 1, tmp_path, write_fd, (), 1, False)
    for name, value in identity.to_environment().items():
        monkeypatch.setenv(name, value)
    told: list[dict[str, Any]] = []

    class CannotClose:
        def __enter__(self) -> CannotClose:
            return self

        def run(self) -> None:
            raise DataError("the cause")

        def __exit__(self, *_: object) -> None:
            told.extend(reader.read())
            raise OSError("the consequence")

    monkeypatch.setattr(entry, "build_worker", lambda *_, **__: CannotClose())
    assert entry.main() == 1
    assert [event["message"] for event in told] == ["the cause"]
    os.close(write_fd)
    assert reader.read() == []  # nothing more is told
    reader.close()


@pytest.mark.parametrize(
    ("policy", "way_out"), [("strict", '"spill" or "none"'), ("spill", '"none"')]
)
def test_memory_that_is_not_where_it_was_to_be_ends_the_worker(
    tmp_path: Path, run_toml: str, policy: str, way_out: str
) -> None:
    memory = MemoryPlan(policy=policy, mode="preferred", nodes=(77,), hbm=True)
    place = encode_placement(Placement(0, allowed_cpus(), 1, (0,), memory=memory))
    toml = run_toml.replace("workers = 2", "workers = 1")
    code, _, events = _run(tmp_path, toml, {"AFFINITY_PLACEMENT": place})
    assert code == 1
    told = {event["event"]: event for event in events}
    assert any("0 %" in problem for problem in told["placement"]["got"]["problems"])
    assert told["error"]["kind"] == "MisplacedMemory"
    assert "preferred:77 was asked for, but it is default" in told["error"]["message"]
    assert "on HBM node 77, where it was to be" in told["error"]["message"]
    assert told["error"]["message"].endswith(f"ask for less by placement.memory = {way_out}")


def test_started_by_hand_it_says_what_to_do_instead() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "is started by `knltrain train`" in done.stderr


@pytest.mark.parametrize("measured", [0, 3])
def test_what_measuring_has_taken_is_logged(
    measured: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "TUNING", Tuning("auto", 7.0, spent=1.5, measured=measured))
    monkeypatch.setattr(entry.JOURNAL, "made", [MadeKernel("add", "()", compiled=True, seconds=1)])
    observer = entry.ParentObserver(cast(EventWriter, None), 0)
    observer._placement_told = True
    for _ in range(2):
        observer.finished()
    kernels, *tuning = capsys.readouterr().out.splitlines()
    assert kernels.startswith("kernels: 1 compiled")
    assert tuning == ["tuning: 3 choices measured in 1.5 of 7 s at most"] * (measured > 0)


def test_a_log_that_takes_no_more_ends_no_worker_and_hides_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_fd, write_fd = os.pipe()
    observer = entry.ParentObserver(EventWriter(write_fd), 0)
    with Path("/dev/full").open("w", buffering=1) as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", full)
        observer.failed(KeyError("velocity"))
        with suppress(OSError):
            full.close()
    os.close(write_fd)
    reader = EventReader(read_fd)
    [error] = reader.read()
    reader.close()
    assert error["message"] == "KeyError: 'velocity'"


def test_what_is_missing_is_told_once_and_when_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_fd, write_fd = os.pipe()
    observer = entry.ParentObserver(EventWriter(write_fd), 0)
    for lacks in ("", "full", "full", "", ""):
        observer.unwritten(None, "plan.json", lacks)
    os.close(write_fd)
    reader = EventReader(read_fd)
    assert [event["lacks"] for event in reader.read()] == ["full", ""]
    reader.close()
