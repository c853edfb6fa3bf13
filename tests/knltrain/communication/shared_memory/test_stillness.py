from __future__ import annotations

from knltrain.communication.shared_memory.stillness import (
    LONGEST_LOOK_SECONDS,
    ProcessClock,
    Stillness,
)

from ....still_clock import Clock


def test_time_in_which_this_process_was_stopped_does_not_pass(clock: Clock) -> None:
    own, short = ProcessClock(), ProcessClock(0.25)
    for seconds, passed in ((0.125, 0.125), (0.5, 0.25), (1000, 0.25)):
        clock.seconds += seconds
        assert own.passed() == min(seconds, LONGEST_LOOK_SECONDS)
        assert short.passed() == passed


def test_who_is_not_still_begins_anew(clock: Clock) -> None:
    found: Stillness[str] = Stillness()
    for still in (["a", "b"], ["a"], ["a", "b"]):
        clock.seconds += 0.5
        found.look(still)
    assert (found.seconds("a"), found.seconds("b"), found.seconds("c")) == (1.5, 0.5, 0.0)
    assert found.still_for(0.5) == ["a", "b"]
    assert found.still_for(1.0) == ["a"]


def test_what_does_not_count_is_not_made_up_for(clock: Clock) -> None:
    found: Stillness[str] = Stillness()
    for counts in (True, False, True):
        clock.seconds += 0.5
        found.look(["a"], counts)
    assert found.seconds("a") == 1.0
