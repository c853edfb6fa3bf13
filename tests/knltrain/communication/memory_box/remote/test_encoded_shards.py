"""Buffers of several real ranks that are read and added to in fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ....hosts import hosts_or_skip
from ....mpi_ranks import OVER_TCP, expect_success, needs_mpi, run_ranks_on

Run = Callable[..., str]

ALL = (
    "encoded_contributions_of_all_add_up",
    "encoded_contributions_to_some_ranks_add_up",
    "far_shards_are_read_as_they_are_encoded",
    "what_is_near_now_takes_its_residual",
)

pytestmark = needs_mpi


@pytest.mark.slow
@pytest.mark.parametrize("over", [pytest.param({}, id="shm"), pytest.param(OVER_TCP, id="tcp")])
def test_values_arrive_as_they_are_encoded_and_nothing_is_lost(
    run: Run, over: dict[str, str]
) -> None:
    run(*ALL, over=over)


@pytest.mark.slow
def test_it_holds_between_hosts(tmp_path: Path) -> None:
    with hosts_or_skip(2) as hosts:
        program = str(Path(__file__).with_name("programs.py"))
        expect_success(run_ranks_on(hosts, tmp_path, 4, program, ALL[0], *ALL[2:]))
