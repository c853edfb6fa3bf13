from __future__ import annotations

from pathlib import Path

import pytest

from ...mpi_ranks import expect_success, needs_mpi, run_ranks

PROGRAMS = Path(__file__).with_name("programs.py")

pytestmark = needs_mpi


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "requests_are_finished",
        "what_does_not_come_ends_the_wait",
        "who_was_stopped_has_not_waited_meanwhile",
    ],
)
def test_waiting(name: str) -> None:
    expect_success(run_ranks(2, str(PROGRAMS), name))
