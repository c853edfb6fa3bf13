"""When a job of Slurm ends, by its variables and by a squeue of these tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from knltrain.cluster import job_end as module
from knltrain.cluster.job_end import JobEnd, seconds_left


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:05\n", 65),
        ("59:59", 3599),
        ("2:00:00", 7200),
        ("1-02:03:04", 93784),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_time_that_is_left_is_read_as_squeue_writes_it(text: str, expected: float | None) -> None:
    assert seconds_left(text) == expected


def test_end_that_slurm_tells_is_taken() -> None:
    assert JobEnd({"SLURM_JOB_END_TIME": "1700000000", "SLURM_JOB_ID": "7"})() == 1.7e9


def test_nothing_ends_outside_of_a_job() -> None:
    assert JobEnd({"PATH": "/usr/bin"})() is None


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """Makes a squeue of a shell script; returns the environment of a job that asks it."""

    def made(script: str) -> dict[str, str]:
        program = tmp_path / "new"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        program.rename(tmp_path / "squeue")
        return {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "12"}

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return made


Squeue = Callable[[str], dict[str, str]]


def test_squeue_is_asked_where_slurm_does_not_tell(squeue: Squeue) -> None:
    before = time.time()
    found = JobEnd(squeue('test "$2" = --jobs=12 && echo 1:00:00'))()
    assert found is not None
    assert before + 3600 <= found <= time.time() + 3600


@pytest.mark.parametrize("script", ["echo UNLIMITED", "echo slurm is away >&2; exit 1"])
def test_job_without_a_limit_that_is_known_has_no_end(squeue: Squeue, script: str) -> None:
    assert JobEnd(squeue(script))() is None


def test_job_has_no_known_end_where_there_is_no_squeue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert JobEnd({"PATH": str(tmp_path), "SLURM_JOB_ID": "12"})() is None


def test_limit_that_is_changed_later_is_seen(
    squeue: Squeue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it was told by a variable, which stays as it is; an answer that is none is not."""
    monkeypatch.setattr(module, "ASK_SECONDS", 0.01)
    monkeypatch.setattr(module, "LEAST_ASK_SECONDS", 0.01)
    end = JobEnd({**squeue("echo 2:00:00"), "SLURM_JOB_END_TIME": "1700000000"})
    _soon(lambda: (end() or 0) > time.time() + 7000)
    squeue("echo slurm is away")
    asked = time.monotonic()
    _soon(lambda: (end() or 0) > 0 and time.monotonic() - asked > 0.1)
    assert (end() or 0) > time.time() + 7000
    squeue("echo UNLIMITED")
    _soon(lambda: end() is None)
    squeue("echo 1:00")
    _soon(lambda: end() is not None)


def test_nobody_waits_for_an_answer_or_asks_meanwhile(
    squeue: Squeue, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "LEAST_ASK_SECONDS", 0.0)
    asked, answers = tmp_path / "asked", tmp_path / "answers"
    os.mkfifo(answers)
    ended = time.time() // 1
    job = squeue(f"echo . >> {asked}; cat {answers}")
    end = JobEnd({**job, "SLURM_JOB_END_TIME": str(int(ended))})
    _soon(lambda: end() == ended and asked.exists())
    assert end() == ended
    assert asked.read_text() == ".\n"
    answers.write_text("1:00")
    _soon(lambda: end() != ended)


@pytest.mark.parametrize(
    ("left_seconds", "pause_seconds"), [(1e6, 300), (400, 200), (10, 30), (-50, 30)]
)
def test_squeue_is_asked_the_sooner_the_nearer_the_end(
    left_seconds: float, pause_seconds: float
) -> None:
    told = str(int(time.time() + left_seconds))
    end = JobEnd({"SLURM_JOB_END_TIME": told, "SLURM_JOB_ID": "7"})
    assert end._pause_seconds() == pytest.approx(pause_seconds, abs=2)


def _soon(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.005)
