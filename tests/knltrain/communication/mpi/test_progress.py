from __future__ import annotations

from pathlib import Path

import pytest

from ...mpi_ranks import OVER_TCP, expect_success, needs_mpi, run_ranks

PROGRAMS = Path(__file__).with_name("programs.py")

pytestmark = needs_mpi


@pytest.mark.slow
def test_owner_that_computes_answers_over_tcp() -> None:
    expect_success(run_ranks(2, str(PROGRAMS), "owner_that_computes_answers", environment=OVER_TCP))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "thread_without_work_sleeps",
        "failure_in_the_thread_is_told",
        "thread_that_nobody_stops_lets_the_process_end",
    ],
)
def test_thread(name: str) -> None:
    expect_success(run_ranks(2, str(PROGRAMS), name))
