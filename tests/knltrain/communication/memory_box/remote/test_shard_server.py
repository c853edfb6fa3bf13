"""Threads that serve the shards of real ranks to others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ....mpi_ranks import OVER_TCP, needs_mpi

Run = Callable[..., str]

pytestmark = needs_mpi


@pytest.mark.slow
@pytest.mark.parametrize("over", [pytest.param({}, id="shm"), pytest.param(OVER_TCP, id="tcp")])
def test_server_adds_what_is_sent_and_sends_its_shard(run: Run, over: dict[str, str]) -> None:
    run("server_adds_and_sends_a_shard", over=over)


@pytest.mark.slow
def test_errors_of_a_server_are_those_of_its_rank(run: Run) -> None:
    run("server_that_is_stopped_or_fails_says_so")
