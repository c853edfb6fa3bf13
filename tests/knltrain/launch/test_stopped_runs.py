"""Real runs that are asked for a checkpoint, or to stop with one, and then go on from it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from knltrain.config.methods import METHODS

from ..marks import by_cost
from .worker_processes import workers_of

pytestmark = pytest.mark.usefixtures("two_cores")

Start = Callable[..., subprocess.Popen[str]]

ROOT = Path(__file__).parents[3]

ENDLESS = ("--set", "train.steps=100000000", "--set", "evaluation.every_epochs=0")
NO_OTHERS = ("--set", "checkpoint.every_epochs=0")
OF_ONE_WORKER = ("asgd", "mvasgd")
FIGURES = {
    "streaming_diloco": {"communication_period": 4, "fragments": 2, "delay_steps": 1},
    "hierarchical_sgd": {"communication_period": 4, "group_period": 2},
    "diloco": {"communication_period": 5},
    "slowmo": {"communication_period": 4},
    "mdownpour": {"center_momentum": 0.5},
}


@pytest.fixture
def folder(tmp_path: Path, run_toml: str) -> Path:
    (tmp_path / "run.toml").write_text(run_toml)
    return tmp_path


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    with process:
        try:
            yield process
        finally:
            process.kill()


def _by(method: str) -> list[str]:
    words = ["--set", f"exchange.method={method}", "--set", "learning_rate.base=0.001"]
    for key, value in FIGURES.get(method, {}).items():
        words += ["--set", f"exchange.{key}={value}"]
    return [*words, *(("--workers", "1") if method in OF_ONE_WORKER else ())]


def _wait(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240  # kernels may have to be compiled first
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def _await_steps(process: subprocess.Popen[str], run: Path, lines: int = 3) -> None:
    """Until worker 0 has written so many lines of its metrics, one after each epoch."""
    metrics = run / "metrics-0.jsonl"
    _wait(process, lambda: metrics.exists() and metrics.read_text().count("\n") >= lines)


def _steps_kept(run: Path) -> list[int]:
    return sorted(int(each.name[11:]) for each in run.glob("checkpoint-*"))


def _own_steps(checkpoint: Path, workers: int = 2) -> list[int]:
    found = []
    for rank in range(workers):
        with safe_open(checkpoint / f"worker-{rank}.safetensors", framework="numpy") as file:
            found.append(int(file.metadata()["step"]))
    return found


def _assert_stopped(process: subprocess.Popen[str], run: Path, why: str) -> int:
    """It has ended with a checkpoint and the way on; returns the step of that."""
    _, err = process.communicate(timeout=120)
    assert process.returncode == 75, err
    (last,) = err.splitlines()
    step = _steps_kept(run)[-1]
    assert last.startswith(f"error: the run was stopped by {why} at step {step} of ")
    assert last.endswith(
        f"runs/run/checkpoint-{step} is kept: go on with knltrain train --resume runs/run"
    )
    assert not (run / "result.json").exists()
    return step


def _finish(process: subprocess.Popen[str]) -> None:
    _, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("method", by_cost(METHODS, "shmcaffe_h", quick="easgd"))
def test_a_run_keeps_a_checkpoint_when_asked_stops_with_one_and_goes_on(
    method: str, folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs/run"
    words = ("train", "run.toml", *_by(method), *ENDLESS, *NO_OTHERS)
    with _ended(start_knltrain(*words, cwd=folder)) as process:
        _await_steps(process, run)
        process.send_signal(signal.SIGUSR2)
        _wait(process, lambda: bool(_steps_kept(run)))
        first = _steps_kept(run)[0]
        process.send_signal(signal.SIGUSR1)
        step = _assert_stopped(process, run, "SIGUSR1")
    assert 0 < first <= step
    length = ("--set", f"train.steps={step + 20}")
    _finish(start_knltrain("train", "--resume", "runs/run", *length, cwd=folder))
    assert json.loads((run / "result.json").read_text())["steps"] == step + 20


IN_ORDER = [
    name
    for name, facts in METHODS.items()
    if facts.schedule in ("synchronous", "round_robin", "never")
]


@pytest.mark.parametrize("method", by_cost(IN_ORDER, "streaming_diloco"))
def test_a_run_that_was_stopped_ends_where_one_ends_that_never_was(
    method: str, folder: Path, start_knltrain: Start
) -> None:
    total, runs = 600, folder / "runs"
    words = ("train", "run.toml", *_by(method), *NO_OTHERS, "--set", f"train.steps={total}")
    rare = ("--set", "evaluation.every_epochs=50")
    with _ended(start_knltrain(*words, *rare, cwd=folder)) as process:
        _await_steps(process, runs / "run", 1)
        process.send_signal(signal.SIGTERM)
        assert _assert_stopped(process, runs / "run", "SIGTERM") < total
    shutil.copytree(runs / "run", runs / "stopped")
    _finish(start_knltrain("train", "--resume", "runs/stopped", cwd=folder))
    _finish(start_knltrain(*words, *rare, "--name", "whole", cwd=folder))
    for name in ("center", "worker-0", "worker-1"):
        whole, resumed = (
            load_file(runs / each / f"checkpoint-{total}/{name}.safetensors")
            for each in ("whole", "stopped")
        )
        assert whole.keys() == resumed.keys()
        assert [key for key in whole if whole[key].tobytes() != resumed[key].tobytes()] == []


@pytest.mark.slow
def test_workers_of_different_speed_stop_as_far_as_they_are(
    folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs/run"
    words = ("train", "run.toml", *_by("hogwild_easgd"), *ENDLESS, *NO_OTHERS)
    with _ended(start_knltrain(*words, cwd=folder)) as process:
        _await_steps(process, run, 1)
        slow = workers_of(process)[1]
        os.kill(slow, signal.SIGSTOP)
        _await_steps(process, run, 6)
        process.send_signal(signal.SIGTERM)
        os.kill(slow, signal.SIGCONT)
        step = _assert_stopped(process, run, "SIGTERM")
    own = _own_steps(run / f"checkpoint-{step}")
    assert step == own[1] < own[0]
    end = own[0] + 10
    length = ("--set", f"train.steps={end}")
    _finish(start_knltrain("train", "--resume", "runs/run", *length, cwd=folder))
    assert json.loads((run / "result.json").read_text())["worker_steps"] == [end, end]


@pytest.mark.slow
def test_signals_to_all_processes_of_a_run_reach_the_parent_alone(
    folder: Path, start_knltrain: Start
) -> None:
    """As schedulers send them, which continue what may be suspended before."""
    run = folder / "runs/run"
    words = ("train", "run.toml", *ENDLESS, *NO_OTHERS)
    with _ended(start_knltrain(*words, cwd=folder)) as process:
        _await_steps(process, run)
        workers = [workers_of(process)[rank] for rank in range(2)]
        for number in (signal.SIGHUP, signal.SIGUSR2, signal.SIGINT, signal.SIGCONT):
            for worker in workers:
                os.kill(worker, number)
        for each in (*workers, process.pid):
            os.kill(each, signal.SIGCONT)
            os.kill(each, signal.SIGTERM)
        _assert_stopped(process, run, "SIGTERM")


@pytest.mark.slow
def test_second_signal_ends_a_run_that_does_not_get_to_its_checkpoint(
    folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs/run"
    words = ("train", "run.toml", *ENDLESS, *NO_OTHERS)
    with _ended(start_knltrain(*words, cwd=folder)) as process:
        _await_steps(process, run)
        os.kill(workers_of(process)[1], signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        while "SIGTERM: the run stops after a step" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err.startswith("error: the run was stopped by SIGTERM at step ")
    assert "no checkpoint was written yet" in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_run_that_does_not_get_to_its_checkpoint_in_time_is_ended(
    folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs/run"
    grace = ("--set", "preemption.grace_seconds=0.5")
    words = ("train", "run.toml", *ENDLESS, *NO_OTHERS, *grace)
    with _ended(start_knltrain(*words, cwd=folder)) as process:
        _await_steps(process, run)
        stopped = workers_of(process)[0]
        os.kill(stopped, signal.SIGSTOP)
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGUSR1
    here = f"(process {stopped} on host {socket.gethostname()})"
    assert (
        "no checkpoint came within preemption.grace_seconds = 0.5: "
        f"worker 0 {here} is stopped (state T); no checkpoint was written yet"
    ) in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_one_worker_stops_too_and_keeps_checkpoints_by_time(
    folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs/run"
    often = ("--set", "checkpoint.every_minutes=0.002", "--workers", "1")
    with _ended(
        start_knltrain("train", "run.toml", *ENDLESS, *NO_OTHERS, *often, cwd=folder)
    ) as process:
        _wait(process, lambda: len(_steps_kept(run)) >= 2)
        process.send_signal(signal.SIGTERM)
        _assert_stopped(process, run, "SIGTERM")


@pytest.mark.slow
def test_run_stops_before_the_end_of_its_job(folder: Path) -> None:
    heeded = ("--set", "preemption.heed_job_end=true", "--set", "preemption.reserve_seconds=3595")
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": str(int(time.time()) + 3600)}
    command = [sys.executable, "-m", "knltrain", "train", "run.toml", *ENDLESS, *NO_OTHERS]
    process = subprocess.Popen(
        [*command, *heeded],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **job},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with _ended(process):
        _assert_stopped(process, folder / "runs/run", "the end of its job")


def test_signal_that_comes_while_a_run_begins_is_told(folder: Path, start_knltrain: Start) -> None:
    """Nothing is lost with it but the beginning."""
    with _ended(start_knltrain("train", "run.toml", *ENDLESS, cwd=folder)) as process:
        handled = 1 << (signal.SIGUSR1 - 1)

        def heeds() -> bool:
            status = Path(f"/proc/{process.pid}/status").read_text()
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
            return bool(int(caught.split()[1], 16) & handled)

        _wait(process, heeds)
        process.send_signal(signal.SIGUSR1)
        _, err = process.communicate(timeout=60)
    assert process.returncode in (75, 128 + signal.SIGUSR1)
    assert "stopped by SIGUSR1" in err
    assert err.count("\n") == 1
