"""Workers meet between two steps: who waits how long, and what all know afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.transports.loopback import Loopback
from knltrain.worker.synchronisation import MEETING_SECONDS, Synchronisation
from knltrain.worker.termination import RunProgress


@pytest.mark.parametrize(
    ("schedule", "period", "expected"),
    [
        ("synchronous", 1, None),
        ("synchronous", 2, MEETING_SECONDS),
        ("synchronous", None, MEETING_SECONDS),
        ("first_come", 1, MEETING_SECONDS),
    ],
)
def test_workers_that_are_steps_apart_have_long_to_come(
    easgd, monkeypatch, schedule, period, expected
):
    method = replace(easgd(), period=period)
    if schedule != "synchronous":
        method = replace(method, strategy=AsynchronousStrategy, schedule=schedule)
    part = strategy_in(method, Loopback(3))
    limits = []
    monkeypatch.setattr(part.team, "barrier", limits.append)
    Synchronisation(part, RunProgress("each", 9, part.team)).wait()
    assert limits == [expected]
    part.close()


def test_what_is_under_way_to_the_center_has_come_before_a_worker_is_there(easgd, monkeypatch):
    part, moments = strategy_in(easgd(), Loopback(3)), []
    monkeypatch.setattr(part, "settle", lambda: moments.append("settled"))
    monkeypatch.setattr(part.team, "barrier", lambda _limit: moments.append("there"))
    Synchronisation(part, RunProgress("each", 9, part.team)).wait()
    assert moments == ["settled", "there"]
    part.close()


def test_meeting_says_when_all_last_met_and_who_has_stood_still_since(easgd):
    part = strategy_in(easgd(), Loopback(3))
    progress = RunProgress("each", 9, part.team)
    synchronisation = Synchronisation(part, progress)
    assert synchronisation.unmoved_since(0) == 0
    found = []
    for own_step in (2, 5, 5):
        assert synchronisation.unmoved_since(own_step) in (None, own_step)
        found.append((synchronisation.agree(own_step), synchronisation.step, progress.step))
        assert synchronisation.unmoved_since(own_step) == own_step
        assert synchronisation.unmoved_since(own_step + 1) is None
    assert found == [(0, 2, 2), (2, 5, 5), (5, 5, 5)]
    part.close()


def test_all_know_the_same_of_a_run_whose_workers_are_at_different_steps(in_threads, easgd):
    method = replace(easgd(), strategy=AsynchronousStrategy, schedule="first_come")

    def meet(transport):
        part = strategy_in(method, transport)
        progress = RunProgress("fastest", 9, transport)
        synchronisation = Synchronisation(part, progress)
        own_step = 4 + transport.rank
        synchronisation.agree(own_step)
        return synchronisation.step, progress.worker_steps, synchronisation.unmoved_since(own_step)

    assert in_threads(3, 3, meet) == [(6, (4, 5, 6), 6)] * 3
