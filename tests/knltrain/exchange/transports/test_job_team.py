"""Workers that are one job: real ranks of MPI, and one alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.exchange.transports.job_team import JobTeam

from ...mpi_ranks import expect_success, needs_mpi, run_ranks

PROGRAM = str(Path(__file__).with_name("job_ranks.py"))


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("scene", ["team", "leaves_alone"])
def test_ranks_are_a_team_and_leave_together_or_alone(scene: str) -> None:
    assert expect_success(run_ranks(3, PROGRAM, scene)).count("well") == 3


def test_one_worker_alone_is_a_team() -> None:
    team = JobTeam.of_one()
    assert (team.rank, team.workers, team.space.size) == (0, 1, 1)
    assert team.all_sum(np.array([2.5])).tolist() == [2.5]
    assert team.link_rate(100) is None
    assert team.progress(7).tolist() == [7]
    team.barrier()
    team.check()
    team.close()
