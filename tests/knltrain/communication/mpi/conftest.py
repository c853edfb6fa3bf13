"""Ranks of an MPI job that nothing has launched, as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

ROOT = Path(__file__).parents[4]
PROGRAM = Path(__file__).with_name("rank_of_mpi.py")

Start: TypeAlias = Callable[..., list[subprocess.Popen[str]]]


@pytest.fixture(autouse=True)
def environment_stays_as_it_was() -> Iterator[None]:
    """What is set for a library here would reach the processes that other tests start."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def start(mpi_version: str, tmp_path: Path) -> Iterator[Start]:
    """start(ranks, scenario): its processes; `before` are words before Python, by rank."""
    if "Open MPI" in mpi_version:
        pytest.skip(f"{mpi_version} needs its own launcher")
    started: list[subprocess.Popen[str]] = []

    def run(
        ranks: int,
        scenario: str = "plain",
        limit_seconds: float = 60.0,
        end_seconds: float = 60.0,
        present: Sequence[int] | None = None,
        before: Mapping[int, Sequence[str]] | None = None,
        **variables: Any,
    ) -> list[subprocess.Popen[str]]:
        for rank in range(ranks) if present is None else present:
            words = [*(before or {}).get(rank, ()), sys.executable, str(PROGRAM)]
            words += [str(rank), str(ranks), str(tmp_path), scenario]
            words += [str(limit_seconds), str(end_seconds)]
            started.append(
                subprocess.Popen(
                    words,
                    env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        return started

    yield run
    for process in started:
        process.kill()
        process.communicate()
