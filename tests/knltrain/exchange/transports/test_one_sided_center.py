"""Workers on several nodes who come to a center alone: real ranks of MPI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from affinity import Placement, allowed_cpus
from affinity.process.own import PLACEMENT_VARIABLE, encode_placement

from ...communication.internode.wire.formats import FORMATS
from ...mpi_ranks import OVER_TCP, expect_success, needs_mpi, run_ranks

PROGRAM = Path(__file__).with_name("one_sided_ranks.py")
RANKS = 3

pytestmark = needs_mpi


def told_by(
    scene: str, environment: dict[str, str] | None = None, written: str = ""
) -> dict[int, list[Any]]:
    """What each rank has found; with ``written``, by visits in this wire format."""
    found: dict[int, list[Any]] = {}
    words = (str(PROGRAM), scene, *([written] if written else ()))
    for line in expect_success(run_ranks(RANKS, *words, environment=environment)).splitlines():
        rank, what = json.loads(line)
        found.setdefault(rank, []).append(what)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "over",
    [pytest.param({}, id="shm"), pytest.param(OVER_TCP, id="tcp", marks=pytest.mark.slow)],
)
def test_what_leaves_the_locals_enters_the_center(over: dict[str, str]) -> None:
    assert told_by("elastic_averages", over) == {rank: [True, True] for rank in range(RANKS)}


@pytest.mark.slow
def test_steps_of_all_workers_add_up_exactly() -> None:
    assert told_by("pushes") == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
def test_workers_are_a_team() -> None:
    found = told_by("team")
    for rank in range(RANKS):
        assert found[rank] == [[3.0, 3.0], True, [10, 11, 12], [rank, RANKS, rank == 0]]


@pytest.mark.slow
@pytest.mark.parametrize("reserves", [True, False])
def test_mpi_progresses_on_the_cores_for_communication(reserves: bool, two_cores: None) -> None:
    """Or on all cores of the worker, whose computing threads are pinned to one each."""
    cpus = tuple(sorted(allowed_cpus()))
    expected = cpus[-1:] if reserves else cpus
    place = Placement(0, cpus, 1, (), communication_cpus=expected if reserves else ())
    found = told_by("progress", {PLACEMENT_VARIABLE: encode_placement(place)})
    assert found == {rank: [list(expected)] for rank in range(RANKS)}


@pytest.mark.slow
def test_who_is_late_does_not_spoil_the_start() -> None:
    assert told_by("starts_late") == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
def test_a_thread_adds_while_its_worker_tells_of_its_steps() -> None:
    assert told_by("updates") == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["velocities", "turns", "one_server"])
def test_centers_that_do_more_than_add_up_are_visited_by_one_at_a_time(scene: str) -> None:
    assert told_by(scene) == {rank: [True, True] for rank in range(RANKS)}


@pytest.mark.slow
def test_averages_of_a_center_are_those_of_all_visits_and_are_restored() -> None:
    assert told_by("averages") == {rank: [True, True, [7.0] * 3] for rank in range(RANKS)}


@pytest.mark.slow
def test_a_turn_that_is_not_taken_is_named() -> None:
    assert told_by("late_turn") == {rank: [True] for rank in range(1, RANKS)}


@pytest.mark.slow
def test_who_does_not_come_alone_is_refused() -> None:
    assert told_by("refusals") == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "over",
    [pytest.param({}, id="shm"), pytest.param(OVER_TCP, id="tcp", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("written", FORMATS)
def test_encoded_visits_have_the_values_of_numpy(written: str, over: dict[str, str]) -> None:
    assert told_by("written_values", over, written) == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
@pytest.mark.parametrize("written", FORMATS)
def test_what_leaves_the_locals_encoded_enters_the_center(written: str) -> None:
    assert told_by("written", OVER_TCP, written) == {rank: [True] * 3 for rank in range(RANKS)}


@pytest.mark.slow
@pytest.mark.parametrize("written", ["bfloat16", "int8"])
def test_encoded_visits_by_turns_are_of_one_at_a_time(written: str) -> None:
    assert told_by("turns", {}, written) == {rank: [True] * 2 for rank in range(RANKS)}


@pytest.mark.slow
@pytest.mark.parametrize("written", FORMATS)
def test_every_worker_keeps_what_it_has_not_sent(written: str) -> None:
    assert told_by("written_state", {}, written) == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
@pytest.mark.parametrize("written", FORMATS)
def test_messages_have_the_bytes_of_the_format(written: str) -> None:
    assert told_by("written_bytes", {}, written) == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
def test_an_encoded_increment_is_written_before_it_is_accumulated() -> None:
    assert told_by("written_marks", {}, "int8") == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
@pytest.mark.parametrize("written", ["bfloat16", "int8"])
def test_a_thread_pushes_encoded_contributions(written: str) -> None:
    assert told_by("written_beside", OVER_TCP, written) == {rank: [True] for rank in range(RANKS)}


@pytest.mark.slow
def test_who_no_longer_serves_a_shard_is_named() -> None:
    assert told_by("server_fails", {}, "int8") == {rank: [True] for rank in range(RANKS)}
