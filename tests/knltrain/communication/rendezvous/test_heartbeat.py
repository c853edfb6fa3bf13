from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from knltrain.communication.rendezvous.heartbeat import (
    MOST_FIGURES,
    Heartbeat,
    carrying,
    figures_in,
)


class Heart:
    """One that is asked to beat, and hears of whom there is nothing to hear."""

    def __init__(self, limit_seconds: float, there: tuple[int, ...] = (1, 2, 3)) -> None:
        self.beats = 0
        self.silent: list[int] = []
        self.there = there
        self.still_beating: set[int] = set()
        self.made = Heartbeat(limit_seconds, self.beat, lambda: self.there, self.silent.append)

    def beat(self) -> None:
        """All beat at the same time."""
        self.beats += 1
        for rank in tuple(self.still_beating):
            self.made.heard(rank)


@contextmanager
def beating(limit_seconds: float, *ranks: int) -> Iterator[Heart]:
    heart = Heart(limit_seconds)
    heart.still_beating.update(ranks)
    try:
        soon(lambda: heart.beats > 2)
        yield heart
    finally:
        heart.made.close()


def soon(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_who_ceases_to_give_signs_is_told_once() -> None:
    with beating(0.1, 1, 2) as heart:
        heart.still_beating.discard(2)
        soon(lambda: heart.silent == [2])
        before = heart.beats
        soon(lambda: heart.beats > before + 30)
        assert heart.silent == [2]


def test_who_has_gone_or_never_gave_a_sign_is_not_told() -> None:
    with beating(0.1, 1, 2) as heart:
        heart.there = (1, 3)
        heart.still_beating.discard(2)
        before = heart.beats
        soon(lambda: heart.beats > before + 30)
        assert heart.silent == []


def test_nobody_is_told_before_the_limit() -> None:
    with beating(0.4, 1) as heart:
        heart.still_beating.clear()
        ceased = time.monotonic()
        soon(lambda: heart.silent == [1])
        assert time.monotonic() - ceased >= 0.4


def test_time_in_which_this_process_was_stopped_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when all of the run is suspended, and the others go on a little later."""
    jumped = 0.0
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + jumped)
    with beating(1.0, 1) as heart:
        heart.still_beating.clear()
        jumped = 1000.0
        before = heart.beats
        soon(lambda: heart.beats > before + 2)
        assert heart.silent == []


def test_signs_are_given_at_least_once_a_second_however_long_the_limit() -> None:
    heart = Heart(1e6)
    soon(lambda: heart.beats == 1)
    heart.made.close()
    assert heart.made._pause_seconds == 1.0


def test_nothing_is_left_of_it() -> None:
    with beating(0.1) as heart:
        pass
    before = heart.beats
    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())
    time.sleep(0.05)
    assert heart.beats == before


@pytest.mark.parametrize(
    "figures", [None, 3, "12", {"0": 1.0}, [1.0, "2"], [True], [None], [0.0] * (MOST_FIGURES + 1)]
)
def test_a_heartbeat_with_other_than_a_few_numbers_carries_none(figures: object) -> None:
    assert figures_in({"beat": 1, "figures": figures}) == []
    assert figures_in({"beat": 1}) == []


def test_a_heartbeat_carries_numbers() -> None:
    assert figures_in({"beat": 1, "figures": [3, 2.5]}) == [3.0, 2.5]


@pytest.mark.parametrize("figures", [[1.0, float("nan")], [float("inf")]])
def test_numbers_that_are_not_finite_are_not_sent(figures: list[float]) -> None:
    assert carrying(figures) == {}
    assert carrying([2, 0.5]) == {"figures": [2.0, 0.5]}
