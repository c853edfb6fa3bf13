"""What the bench starts, and what it makes of the answers."""

from __future__ import annotations

import sys

import pytest

from knltrain.bench.one_sided import benchmark
from knltrain.bench.one_sided.benchmark import format_table, run_one_sided_benchmark
from knltrain.bench.step.peer_process import PeerError

from ...mpi_ranks import needs_mpi


@pytest.mark.slow
@needs_mpi
def test_two_ranks_are_measured() -> None:
    report = run_one_sided_benchmark(400_000, 3, "sleep", "shm")
    assert set(report["share_of_copy"]) == {"read", "write", "accumulate"}
    assert all(share > 0 for share in report["share_of_copy"].values())
    table = format_table(report)
    assert "vectors of 0.4 MB, at an owner that sleeps; medians of 3 rounds" in table
    assert {line.split()[0] for line in table.splitlines()[4:]} == set(report["seconds"])


def test_shares_count_the_bytes_that_must_move(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"copy": [1.0, 3.0, 4.0], **dict.fromkeys(("read", "write", "accumulate"), [2.0] * 3)}
    monkeypatch.setattr(benchmark, "answer", lambda _: {"seconds": seconds})
    monkeypatch.setattr(benchmark, "mpiexec", lambda: "mpiexec")
    report = run_one_sided_benchmark(4000, 3, "sleep", "tcp")
    assert report["share_of_copy"] == {"read": 1.5, "write": 1.5, "accumulate": 2.25}


def test_ranks_that_break_off_are_told() -> None:
    program = "print('so far'); raise SystemExit(3)"
    with pytest.raises(PeerError, match="ended with exit code 3: so far"):
        benchmark.answer([sys.executable, "-c", program])


def test_ranks_that_hang_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "LIMIT_SECONDS", 0.2)
    with pytest.raises(PeerError, match=r"have not ended after 0\.2 s"):
        benchmark.answer([sys.executable, "-c", "import time; time.sleep(60)"])
