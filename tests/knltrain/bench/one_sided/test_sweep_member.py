"""The measurement by real ranks."""

from __future__ import annotations

import json

import pytest

from ...mpi_ranks import expect_success, needs_mpi, run_ranks

MODULE = "knltrain.bench.one_sided.sweep_member"

pytestmark = needs_mpi


@pytest.mark.slow
def test_all_but_the_owner_are_timed_together() -> None:
    said = expect_success(run_ranks(4, "-m", MODULE, "--bytes", "40000", "--trials", "3"))
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    report = json.loads(line)
    assert all(seconds > 0 for seconds in (*report["seconds"], *report["copy"]))
    assert (len(report["seconds"]), len(report["copy"])) == (3, 3)
    assert "MPI" in report["library"]


def test_an_owner_alone_is_refused() -> None:
    found = run_ranks(1, "-m", MODULE)
    assert found.returncode != 0
    assert "1 rank: expected 2 at least" in found.stdout
