"""Who ends and who stands still, by what is seen of processes that are not there."""

from __future__ import annotations

from typing import cast

import pytest

from knltrain.launch.vitals import Vitals
from knltrain.launch.worker_process import WorkerProcess

from ...still_clock import Clock

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
