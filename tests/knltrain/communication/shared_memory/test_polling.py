"""x"""

from __future__ import annotations

from knltrain.communication.shared_memory.polling import (
    LONGEST_LOOK_SECONDS,
    ProcessClock,
    Stillness,
    nap_until,
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


def test_nap_ends_when_what_is_looked_for_comes() -> None:
    looks = iter([False] * 5 + [True])
    assert nap_until(lambda: next(looks), lambda: None, lambda: None, 20)


def test_peers_are_looked_after_now_and_then() -> None:
    checks: list[str] = []
    assert not nap_until(
        lambda: False, lambda: checks.append("cheap"), lambda: checks.append("dear"), 0.35
    )
    assert 1 <= checks.count("dear") <= 3 < checks.count("cheap")
