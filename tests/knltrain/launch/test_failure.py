"""Which of several ends is shown to the user."""

from __future__ import annotations

from typing import cast

import pytest

from knltrain.data import mapped
from knltrain.launch.failure import Failure, Vitals, first_cause
from knltrain.launch.worker_process import WorkerProcess

from ...still_clock import Clock


def _error(rank: int, kind: str, at_seconds: float, step: int | None = 3) -> Failure:
    event = {"kind": kind, "message": kind, "step": step, "exit_code": 1, "at_seconds": at_seconds}
    return Failure.from_event(rank, event)


def test_the_cause_is_shown_although_its_consequences_were_told_first() -> None:
    failures = [
        _error(0, "RunAborted", 1.0),
        _error(2, "PeerLost", 2.0),
        _error(3, "ExchangeTimeout", 3.0),
        _error(1, "NonFiniteLoss", 4.0),
    ]
    assert first_cause(failures).rank == 1
    assert first_cause(failures[:3]).rank == 3
    assert first_cause(failures[:2]).rank == 2


def test_of_two_causes_the_earlier_is_shown() -> None:
    failures = [_error(0, "ValueError", 2.0), _error(1, "NonFiniteLoss", 1.0)]
    assert first_cause(failures).rank == 1


def test_a_kill_is_a_cause_and_a_lost_peer_its_consequence() -> None:
    killed = Failure.from_exit(1, -9)
    assert first_cause([_error(0, "PeerLost", killed.at_seconds - 1), killed]) is killed


@pytest.mark.parametrize(
    ("returncode", "cause"),
    [
        (-9, "it was killed by SIGKILL (perhaps out of memory)"),
        (-7, "it was killed by SIGBUS (perhaps /dev/shm is full)"),
        (-11, "it was killed by SIGSEGV"),
        (3, "it exited with code 3 before its work was done"),
        (0, "it exited with code 0 before its work was done"),
    ],
)
def test_an_end_without_a_word_is_described(
    returncode: int, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "_SIZES", {})
    assert Failure.from_exit(0, returncode).cause == cause


@pytest.mark.parametrize(("returncode", "may"), [(-11, True), (-6, True), (-9, False), (3, False)])
def test_a_crash_may_come_of_an_end_elsewhere_and_a_kill_does_not(
    returncode: int, may: bool
) -> None:
    assert Failure.from_exit(0, returncode).may_come_from_elsewhere is may


def test_the_step_is_told_once() -> None:
    event = {"kind": "E", "exit_code": 1, "at_seconds": 0.0, "step": 7}
    assert Failure.from_event(0, {**event, "message": "broken"}).cause == "step 7: broken"
    assert Failure.from_event(0, {**event, "message": "step 7: nan"}).cause == "step 7: nan"
    assert Failure.from_event(0, {**event, "step": None, "message": "early"}).cause == "early"


LONG = 0.5
"""More seconds than from one look to the next."""


class Seen:
    """A worker as far as it is looked at."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.sight = self
        self.how: str | None = None
        self.ends = False

    def standstill(self) -> str | None:
        return self.how

    def is_ending(self) -> bool:
        return self.ends


def workers(count: int) -> list[Seen]:
    return [Seen(rank) for rank in range(count)]


def vitals_of(seen: list[Seen], alone: bool = True) -> Vitals:
    return Vitals(cast(list[WorkerProcess], seen), alone)


def look(vitals: Vitals, seen: list[Seen], clock: Clock, times: int = 1) -> None:
    for _ in range(times):
        clock.seconds += LONG
        vitals.look(cast(list[WorkerProcess], seen))


def ranks(vitals: Vitals, seconds: float) -> list[int]:
    return [each.worker.rank for each in vitals.still_for(seconds)]


def test_time_counts_from_when_a_worker_was_seen_to_stand_still(clock: Clock) -> None:
    seen = workers(3)
    vitals = vitals_of(seen)
    look(vitals, seen, clock, 5)
    assert ranks(vitals, 0) == []
    seen[1].how = "stopped (state T)"
    look(vitals, seen, clock, 4)
    assert ranks(vitals, 4 * LONG) == [1]
    assert ranks(vitals, 5 * LONG) == []
    seen[2].how = "frozen"
    look(vitals, seen, clock)
    assert ranks(vitals, LONG) == [1, 2]
    seen[1].how = None
    look(vitals, seen, clock)
    seen[1].how = "stopped (state T)"
    look(vitals, seen, clock)
    assert ranks(vitals, LONG) == [2, 1]
    assert [each.how for each in vitals.still_for(0)] == ["frozen", "stopped (state T)"]


def test_time_in_which_this_process_was_stopped_does_not_count(clock: Clock) -> None:
    seen = workers(2)
    vitals = vitals_of(seen)
    seen[1].how = "stopped (state T)"
    look(vitals, seen, clock)
    clock.seconds += 1000
    look(vitals, seen, clock)
    assert ranks(vitals, 3) == []


@pytest.mark.parametrize("alone", [True, False])
def test_run_that_is_suspended_as_a_whole_waits_for_nobody(clock: Clock, alone: bool) -> None:
    """Others may wait elsewhere, for all that this process knows, where it is one of several."""
    seen = workers(2)
    vitals = vitals_of(seen, alone)
    for worker in seen:
        worker.how = "stopped (state T)"
    look(vitals, seen, clock, 100)
    assert ranks(vitals, 10) == ([] if alone else [0, 1])
    seen[0].how = None
    look(vitals, seen, clock, 2)
    assert ranks(vitals, 2 * LONG) == [1]


def test_last_worker_is_waited_for_when_the_others_have_ended(clock: Clock) -> None:
    seen = workers(2)
    vitals = vitals_of(seen)
    seen[1].how = "stopped (state T)"
    look(vitals, seen[1:], clock, 3)
    assert ranks(vitals, 3 * LONG) == [1]


def test_ending_workers_are_told(clock: Clock) -> None:
    seen = workers(2)
    vitals = vitals_of(seen)
    seen[0].ends = True
    look(vitals, seen, clock)
    assert [worker.rank for worker in vitals.ending] == [0]
