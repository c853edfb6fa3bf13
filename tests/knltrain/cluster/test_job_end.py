"""When a job of Slurm ends, by its variables and by a squeue of these tests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from knltrain.cluster import job_end
from knltrain.cluster.job_end import seconds_left


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
    assert job_end({"SLURM_JOB_END_TIME": "1700000000", "SLURM_JOB_ID": "7"}) == 1.7e9


def test_nothing_ends_outside_of_a_job() -> None:
    assert job_end({"PATH": "/usr/bin"}) is None


def _squeue(folder: Path, script: str) -> dict[str, str]:
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return {"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_ID": "12"}


def test_squeue_is_asked_where_slurm_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = _squeue(tmp_path, 'test "$2" = --jobs=12 && echo 1:00:00')
    monkeypatch.setenv("PATH", environment["PATH"])
    before = time.time()
    found = job_end(environment)
    assert found is not None
    assert before + 3600 <= found <= time.time() + 3600


@pytest.mark.parametrize("script", ["echo UNLIMITED", "echo slurm is away >&2; exit 1"])
def test_job_without_a_limit_that_is_known_has_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    environment = _squeue(tmp_path, script)
    monkeypatch.setenv("PATH", environment["PATH"])
    assert job_end(environment) is None


def test_job_has_no_known_end_where_there_is_no_squeue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert job_end({"PATH": str(tmp_path), "SLURM_JOB_ID": "12"}) is None
