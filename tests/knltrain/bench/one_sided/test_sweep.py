"""More and more ranks at one owner, of small buffers."""

from __future__ import annotations

from typing import Any

import pytest

from knltrain.bench.one_sided import benchmark
from knltrain.bench.one_sided.sweep import format_sweep, run_sweep
from knltrain.errors import ConfigError

from ...mpi_ranks import needs_mpi


@pytest.mark.slow
@needs_mpi
def test_more_processes_than_cores_are_measured() -> None:
    report = run_sweep(40_000, 3, (2, 5), "shm")
    assert [row["processes"] for row in report["rows"]] == [2, 5]
    assert all(len(row["of_trials"]) == 3 and row["copy"] > 0 for row in report["rows"])
    table = format_sweep(report)
    assert "a buffer of 0.04 MB for each process, at one owner" in table
    assert [line.split()[0] for line in table.splitlines()[-2:]] == ["2", "5"]


def test_rates_are_those_of_all_bytes_that_are_read_and_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands: list[list[str]] = []

    def answer(command: list[str]) -> dict[str, Any]:
        commands.append(command)
        return {"seconds": [1.0, 2.0, 4.0], "copy": [0.5, 0.25, 0.5], "library": "an MPI"}

    monkeypatch.setattr(benchmark, "answer", answer)
    monkeypatch.setattr(benchmark, "mpiexec", lambda: "mpiexec")
    (row,) = run_sweep(4000, 3, [8], "tcp")["rows"]
    assert (row["bytes_per_second"], row["of_trials"]) == (32_000, [64_000, 32_000, 16_000])
    assert row["copy"] == 8000
    assert commands[0][commands[0].index("-n") + 1] == "9"  # with the owner


@pytest.mark.parametrize("processes", [[0], [2, 257], []])
def test_numbers_that_cannot_be_are_refused(processes: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"--processes .*: expected some of 1 to 256"):
        run_sweep(4000, 3, processes, "shm")
