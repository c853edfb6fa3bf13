"""The measurement by two real ranks, of small vectors."""

from __future__ import annotations

import json

import pytest

from ...mpi_ranks import expect_success, needs_mpi, run_ranks

MODULE = "knltrain.bench.one_sided.member"

pytestmark = needs_mpi


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["numba", "python"])
def test_each_operation_is_timed_while_the_owner_computes(owner: str) -> None:
    arguments = ["--bytes", "400000", "--rounds", "3", "--owner", owner]
    said = expect_success(run_ranks(2, "-m", MODULE, *arguments))
    report = json.loads(said.splitlines()[-1])
    assert report["bytes"] == 400_000
    assert report["owner"] == owner
    assert report["owner_rounds_per_second"] > 0
    assert "MPI" in report["library"]
    operations = ["copy", "read", "write", "accumulate"]
    assert {name: len(report["seconds"][name]) for name in operations} == dict.fromkeys(
        operations, 3
    )
    assert all(report["bytes_per_second"][name] > 0 for name in [*operations, "sent"])


def test_another_number_of_ranks_is_refused() -> None:
    found = run_ranks(1, "-m", MODULE)
    assert found.returncode != 0
    assert "1 ranks: expected 2, as mpiexec -n 2 starts them" in found.stdout
