"""Real runs whose workers end together although one of them was stopped for a while."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from knltrain.metrics import read_metrics

from ..marks import by_cost
from .worker_processes import workers_of

pytestmark = pytest.mark.usefixtures("two_cores")

Start = Callable[..., subprocess.Popen[str]]

PATIENT = ("--set", "exchange.timeout_seconds=1800")
LOCK_FREE = ("--set", "exchange.method=hogwild_easgd", *PATIENT)
"""A worker that is stopped has no lock of the center then, and is waited for."""

ONLY_AT_THE_END = ("--set", "evaluation.every_epochs=0", "--set", "checkpoint.every_epochs=0")


@pytest.fixture
def folder(tmp_path: Path, run_toml: str) -> Path:
    (tmp_path / "run.toml").write_text(run_toml)
    return tmp_path


def _wait(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120  # kernels may have to be compiled first
    while not condition():
        assert process.poll() is None, "the run ended early"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)  # a look at a long log takes its time


def _steps(run: Path, rank: int) -> list[int]:
    """Steps of a worker that stand in its log."""
    path = run / f"metrics-{rank}.jsonl"
    records = read_metrics(path) if path.exists() else []
    return [each["step"] for each in records if each["kind"] == "train"]


def _result(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    return found


def _sleeps_for_good(process_id: int) -> bool:
    """Whether a worker that was busy now waits for others: it naps, and hardly computes."""
    for _ in range(3):  # in one of them it may have been kept from a core
        before = _used_ticks(process_id)
        time.sleep(0.3)
        if _used_ticks(process_id) - before > 0.1 * os.sysconf("SC_CLK_TCK"):
            return False
    return True


def _used_ticks(process_id: int) -> int:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _finish(process: subprocess.Popen[str]) -> None:
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")


@pytest.mark.parametrize("rule", by_cost(["each", "master", "fastest", "average"], "average"))
def test_a_run_ends_early_by_what_its_workers_have_done(
    rule: str, folder: Path, start_knltrain: Start
) -> None:
    run, total = folder / "runs/run", 2000
    settings = (*LOCK_FREE, "--set", f"exchange.termination={rule}", *ONLY_AT_THE_END)
    with start_knltrain(
        "train", "run.toml", *settings, "--set", f"train.steps={total}", cwd=folder
    ) as process:
        _wait(process, lambda: bool(_steps(run, 1)))
        slow = workers_of(process)[1]
        os.kill(slow, signal.SIGSTOP)
        # The last step of the other is always in its log.
        enough = 1.5 * total if rule == "average" else total
        _wait(process, lambda: _steps(run, 0)[-1:] >= [enough])
        os.kill(slow, signal.SIGCONT)
        _finish(process)
    result = _result(run)
    first, second = result["worker_steps"]
    assert (first, second) == (_steps(run, 0)[-1], _steps(run, 1)[-1])
    assert result["steps"] == total
    assert result["images_per_second"] * result["train_seconds"] == pytest.approx(
        (first + second) * 8
    )
    if rule == "each":
        assert (first, second) == (total, total)
    elif rule == "average":
        assert 2 * total <= first + second <= 2 * total + 1
        assert first > 1.5 * total
    else:
        assert first == total > second
    assert (run / f"checkpoint-{total}").is_dir()


def _own_steps(checkpoint: Path) -> list[int]:
    """Steps of both workers as their files in a checkpoint tell them."""
    found = []
    for rank in range(2):
        with safe_open(checkpoint / f"worker-{rank}.safetensors", framework="numpy") as file:
            found.append(int(file.metadata()["step"]))
    return found


def _stopped_and_killed(process: subprocess.Popen[str], run: Path) -> None:
    """Stop worker 1 until worker 0 waits for it, let it go, and kill it after the checkpoint."""
    _wait(process, lambda: bool(_steps(run, 1)))
    slow = workers_of(process)[1]
    os.kill(slow, signal.SIGSTOP)
    _wait(process, lambda: _sleeps_for_good(workers_of(process)[0]))
    assert not any(run.glob("checkpoint-*"))
    os.kill(slow, signal.SIGCONT)
    _wait(process, lambda: any(run.glob("checkpoint-*")))
    os.kill(slow, signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_run_goes_on_from_the_own_step_of_each_worker(
    folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs/run"
    average = (*LOCK_FREE, "--set", "exchange.termination=average")
    rare = ("--set", "evaluation.every_epochs=0", "--set", "checkpoint.every_epochs=100")
    endless = ("--set", "train.steps=100000000")
    with start_knltrain("train", "run.toml", *average, *rare, *endless, cwd=folder) as process:
        _stopped_and_killed(process, run)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.startswith("error: worker 1 failed: it was killed by SIGKILL")
    assert err.count("\n") == 1
    kept = run / f"checkpoint-{max(int(each.name[11:]) for each in run.glob('checkpoint-*'))}"
    step, begun = int(kept.name[11:]), _own_steps(kept)
    assert step % 600 == 0
    assert 2 * step <= sum(begun) <= 2 * step + 1  # worker 1 may stop late

    length = ("--set", f"train.steps={step + 60}")
    _finish(start_knltrain("train", "--resume", str(run), *length, cwd=folder))
    result = _result(run)
    assert result["steps"] == step + 60
    assert result["worker_steps"] == _own_steps(run / f"checkpoint-{step + 60}")
    assert 2 * (step + 60) <= sum(result["worker_steps"]) <= 2 * (step + 60) + 1
    for rank in range(2):
        assert result["worker_steps"][rank] > begun[rank]
        steps = _steps(run, rank)
        assert steps == sorted(set(steps))
        assert steps[-1] == result["worker_steps"][rank]

    _finish(start_knltrain("train", "--resume", str(run), cwd=folder))
    again = _result(run)
    for each in (again, result):  # to be set up, and to meet once more, takes its time
        for name in ("cost_seconds", "worker_wall_seconds", "worker_clocks_shares"):
            del each[name]
    assert again == result


@pytest.mark.slow
def test_a_run_whose_worker_dies_while_another_waits_for_it_ends_at_once(
    folder: Path, start_knltrain: Start
) -> None:
    run = folder / "runs/run"
    settings = (*LOCK_FREE, "--set", "exchange.termination=master", *ONLY_AT_THE_END)
    with start_knltrain(
        "train", "run.toml", *settings, "--set", "train.steps=4000", cwd=folder
    ) as process:
        _wait(process, lambda: bool(_steps(run, 1)))
        slow = workers_of(process)[1]
        os.kill(slow, signal.SIGSTOP)
        _wait(process, lambda: _steps(run, 0)[-1:] == [4000])
        os.kill(slow, signal.SIGKILL)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.startswith("error: worker 1 failed: it was killed by SIGKILL")
    assert err.count("\n") == 1
    assert not (run / "result.json").exists()
