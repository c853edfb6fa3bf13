"""Buffers on servers that several real ranks work on; `test_shared_buffer` has what one can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ....hosts import hosts_or_skip
from ....mpi_ranks import OVER_TCP, expect_success, needs_mpi, run_ranks_on

Run = Callable[..., str]

pytestmark = needs_mpi


@pytest.mark.slow
def test_accumulates_of_all_ranks_at_once_add_up_exactly(run: Run) -> None:
    run(
        "accumulates_on_all_ranks_add_up",
        "accumulates_on_some_ranks_add_up",
        "accumulates_of_buffers_on_servers_add_up",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "over",
    [pytest.param({}, id="shm"), pytest.param(OVER_TCP, id="tcp")],
)
def test_scaling_loses_nothing_that_others_add(run: Run, over: dict[str, str]) -> None:
    run("scaling_loses_nothing_that_others_add", over=over)


@pytest.mark.slow
@pytest.mark.parametrize(
    "over",
    [pytest.param({}, id="shm"), pytest.param(OVER_TCP, id="tcp")],
)
def test_progress_is_told_and_seen(run: Run, over: dict[str, str]) -> None:
    run(
        "who_announces_sees_itself_and_in_time_all_others",
        "of_two_who_announce_at_once_one_sees_the_other",
        over=over,
    )


@pytest.mark.slow
def test_events_and_threads(run: Run) -> None:
    run("event_wakes_who_waits_and_shows_what_was_written", "threads_work_beside_each_other")


@pytest.mark.slow
def test_owner_that_computes_is_reached_over_tcp(run: Run) -> None:
    run("owner_that_computes_is_reached", over=OVER_TCP)


@pytest.mark.slow
def test_all_of_it_holds_between_hosts(tmp_path: Path) -> None:
    program = Path(__file__).with_name("programs.py")
    names = [
        "owner_that_computes_is_reached",
        "accumulates_on_all_ranks_add_up",
        "scaling_loses_nothing_that_others_add",
        "buffers_come_and_go",
    ]
    with hosts_or_skip(3) as three:
        expect_success(run_ranks_on(three, tmp_path, 3, str(program), *names))
