"""What processes do with a Soft Memory Box comes out right in every interleaving of them."""

from __future__ import annotations

from typing import Any

import pytest
from interleaving.box_programs import (
    accumulates,
    filled,
    frees,
    frees_and_comes_to_the_next,
    frees_and_finds_the_next_empty,
    frees_and_makes,
    frees_for_another_kind,
    makes,
    makes_and_frees,
    notifies,
    only_accumulates,
    opens,
    waits,
)
from interleaving.boxes import OnBox
from interleaving.exploration import Exploration
from interleaving.steps import Worker

from knltrain.errors import SegmentError


class AddsUp(OnBox):
    """What was accumulated is there."""

    def check_end(self, workers: list[Worker]) -> None:
        super().check_end(workers)
        if not any(worker.died for worker in workers):
            assert self.content().tolist() == filled(1 + 2).tolist(), "lost"


@pytest.mark.slow
@pytest.mark.parametrize("deaths", [0, 1])
def test_accumulates_of_two_processes_add_up(on_box: Any, deaths: int) -> None:
    scenario = on_box([accumulates(1), accumulates(2)], buffers=3, kind=AddsUp)
    assert Exploration(scenario, deaths).run().ends >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "programs, buffers, allowed",
    [
        ([notifies, waits], 1, ()),
        ([makes, makes], 0, ()),
        ([accumulates(1), frees], 2, SegmentError),
        ([only_accumulates, frees_and_finds_the_next_empty], 2, SegmentError),
        ([frees, frees], 1, SegmentError),
        ([opens, frees_for_another_kind], 1, SegmentError),
    ],
    ids=["events", "making", "work and free", "work and make", "free twice", "open and free"],
)
def test_two_processes(on_box: Any, programs: Any, buffers: int, allowed: Any) -> None:
    scenario = on_box(programs, buffers=buffers, allowed=allowed)
    assert Exploration(scenario).run().ends >= 1


PREEMPTIONS = [
    1,
    pytest.param(2, marks=pytest.mark.slow),
    pytest.param(None, marks=pytest.mark.long),  # minutes
]


@pytest.mark.parametrize("preemptions", PREEMPTIONS)
@pytest.mark.parametrize("number", [0, 1])
def test_lock_of_the_dead_is_taken_over_by_one_alone(
    on_box: Any, number: int, preemptions: int | None
) -> None:
    """Two free the buffer at once, and one is still about to when the next one is in use."""
    programs = [frees_and_makes, frees_and_comes_to_the_next]
    scenario = on_box(programs, buffers=2, locks_of_dead=(number,), allowed=SegmentError)
    assert Exploration(scenario, preemptions=preemptions).run().ends >= 1


@pytest.mark.long
def test_lock_of_who_dies_anywhere(on_box: Any) -> None:
    programs = [only_accumulates, frees_and_makes, frees_and_comes_to_the_next]
    scenario = on_box(programs, buffers=2, allowed=SegmentError)
    assert Exploration(scenario, deaths=1, preemptions=1).run().ends >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "programs, buffers",
    [([makes, makes_and_frees], 0), ([only_accumulates, frees], 2)],
    ids=["making", "work and free"],
)
def test_two_processes_of_which_one_dies(on_box: Any, programs: Any, buffers: int) -> None:
    scenario = on_box(programs, buffers=buffers, allowed=SegmentError)
    assert Exploration(scenario, deaths=1).run().ends >= 1
