"""Who a launch's signal goes to on a host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from knltrain.cluster.task import own_variables
from knltrain.launch import pass_on
from knltrain.launch.pass_on import tasks_of

ROOT = Path(__file__).parents[3]
JOB = f"of-test-{os.getpid()}"


def _sleeper(job: str, **more: str) -> subprocess.Popen[bytes]:
    variables = {**os.environ, **own_variables(1, 2, job, "n1"), **more}
    return subprocess.Popen(["sleep", "600"], env=variables)


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A task of the launch, a worker of it, and a task of another launch."""
    found = [_sleeper(JOB), _sleeper(JOB, KNLTRAIN_RANK="0"), _sleeper(f"{JOB}7")]
    yield found
    for each in found:
        each.kill()
        each.wait()


def test_signal_goes_to_the_task_alone(sleepers: list[subprocess.Popen[bytes]]) -> None:
    task, *others = sleepers
    assert tasks_of(JOB) == [task.pid]
    words = [sys.executable, "-m", "knltrain.launch.pass_on", JOB, str(int(signal.SIGUSR1))]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert task.wait() == -signal.SIGUSR1
    assert [each.poll() for each in others] == [None, None]


def test_signal_that_is_there_before_its_task_waits_for_it(
    sleepers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([[], [], [sleepers[0].pid]])
    monkeypatch.setattr(pass_on, "tasks_of", lambda _job: next(looks))
    pass_on.main(JOB, signal.SIGUSR1)
    assert sleepers[0].wait() == -signal.SIGUSR1


def test_signal_to_a_task_that_never_comes_goes_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_on, "PATIENCE_SECONDS", 0.2)
    pass_on.main(JOB, signal.SIGUSR1)


def test_signal_to_a_task_that_has_ended_goes_to_nobody() -> None:
    assert tasks_of(JOB) == []
