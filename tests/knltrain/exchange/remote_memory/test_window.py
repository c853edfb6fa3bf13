"""How ranks come together for a box, or do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...mpi_ranks import needs_mpi, run_ranks

Run = Callable[..., str]

pytestmark = needs_mpi


def test_ranks_that_differ_and_servers_that_are_none_are_told(run: Run) -> None:
    run("ranks_that_differ_are_told")


def test_rank_that_does_not_come_ends_the_wait() -> None:
    path = Path(__file__).with_name("programs.py")
    found = run_ranks(3, str(path), "rank_that_does_not_come_ends_the_wait")
    assert "told" in found.stdout, found.stdout
