"""What all ranks of a job do together, with a deadline: real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...mpi_ranks import expect_success, needs_mpi, run_ranks

PROGRAM = str(Path(__file__).with_name("job_ranks.py"))


@needs_mpi
@pytest.mark.slow
def test_ranks_gather_and_broadcast_and_do_not_wait_for_ever() -> None:
    assert expect_success(run_ranks(3, PROGRAM, "meetings")).count("well") == 3
