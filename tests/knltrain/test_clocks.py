from __future__ import annotations

import time

import pytest

from knltrain import clocks as clocks_module
from knltrain.clocks import BESIDES, COSTS, Clock, Clocks, ExchangeClocks


@pytest.fixture
def now(monkeypatch):
    """The time in seconds, now[0], which stands still but for what a test adds."""
    now = [0.0]
    monkeypatch.setattr(clocks_module.time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def clocks():
    return Clocks()


def test_clock_adds_up_what_passes_inside_it_and_nothing_else(monkeypatch):
    now = iter([10.0, 11.5, 20.0, 20.25])
    monkeypatch.setattr(clocks_module.time, "perf_counter", lambda: next(now))
    clock = Clock()
    with clock:
        pass
    with clock:
        pass
    assert clock.seconds == 1.75


def test_clock_tells_begin_and_end_to_who_watches(monkeypatch):
    now = iter([10.0, 11.5, 20.0, 20.25])
    monkeypatch.setattr(clocks_module.time, "perf_counter", lambda: next(now))
    clock, told = Clock(), []
    clock.watch = lambda *times: told.append(times)
    with clock:
        pass
    clock.watch = None
    with clock:
        pass
    assert told == [(10.0, 11.5)]


def test_clock_counts_up_to_an_error_too(monkeypatch):
    now = iter([1.0, 3.0])
    monkeypatch.setattr(clocks_module.time, "perf_counter", lambda: next(now))
    clock = Clock()
    with pytest.raises(KeyError), clock:
        raise KeyError
    assert clock.seconds == 2.0


def test_all_but_evaluations_and_checkpoints_is_training_time(clocks, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clocks_module.time, "perf_counter", lambda: now[0])
    clocks.go_on_from({"training": 6.0, "evaluation": 7.0})
    now[0] = 100.0
    clocks.set_out()
    now[0] = 104.0
    clocks.exchange.seconds += 3.0
    clocks.step_done()
    assert (clocks.train_seconds, clocks.exchange_share) == (10.0, 0.3)
    with clocks.evaluation:
        now[0] = 150.0
    with clocks.checkpoint:
        now[0] = 180.0
    now[0] = 181.0  # between two steps, and neither of both
    assert clocks.train_seconds == 10.0
    clocks.step_done()
    assert clocks.train_seconds == 11.0


def test_share_of_no_time_at_all_is_zero(clocks):
    assert clocks.exchange_share == 0.0


def test_clocks_go_on_from_where_others_stood(now):
    clocks = Clocks()
    clocks.checkpoint.seconds = 4.0
    clocks.exchange.seconds = 2.0
    now[0] = 9.0
    later = Clocks()
    later.go_on_from(clocks.seconds())
    assert later.seconds() == clocks.seconds()


def test_clocks_take_over_what_a_checkpoint_has_and_they_know(now):
    clocks = Clocks()
    clocks.go_on_from({"training": 3.0, "compute": 2.0})
    assert clocks.train_seconds == clocks.seconds()["wall"] == 3.0
    assert sum(clocks.seconds().values()) == 6.0


def test_set_up_is_all_before_the_first_step_but_reading(now):
    clocks = Clocks()
    with clocks.reading:
        now[0] = 2.0
    clocks.go_on_from({"reading": 10.0, "set_up": 20.0})
    now[0] = 5.0
    clocks.set_out()
    assert (clocks.reading.seconds, clocks.set_up.seconds) == (12.0, 23.0)


def test_costs_add_up_to_the_time_of_a_worker(now):
    """One step, with an evaluation after it: nothing is counted twice or forgotten."""
    team = ExchangeClocks()
    clocks = Clocks.over(team)

    def spend(seconds, *within):
        for clock in within:
            clock.__enter__()
        now[0] += seconds
        for clock in within:
            clock.__exit__()

    spend(1.0, clocks.reading)
    spend(2.0)
    clocks.set_out()
    spend(4.0, clocks.batch)
    spend(8.0, clocks.gradient)
    with clocks.exchange:
        spend(16.0, team.waiting)
        spend(32.0, team.center)
        spend(64.0)
    spend(128.0, clocks.update)
    spend(256.0)
    clocks.step_done()
    spend(512.0, clocks.meeting)
    spend(1024.0, clocks.evaluation)
    spend(2048.0, clocks.checkpoint)
    costs = clocks.costs()
    assert costs == {
        "reading": 1.0,
        "set_up": 2.0,
        "batch": 4.0,
        "gradient": 8.0,
        "waiting": 16.0,
        "center_update": 32.0,
        "moving": 64.0,
        "update": 128.0,
        "rest": 256.0,
        "meeting": 512.0,
        "evaluation": 1024.0,
        "checkpoint": 2048.0,
    }
    assert tuple(costs) == COSTS + BESIDES
    assert sum(costs.values()) == now[0] == clocks.wall_seconds
    assert clocks.measured_seconds == now[0] - 256.0
    assert clocks.train_seconds == 508.0


def test_the_wall_clock_goes_on_with_the_others(now):
    """A checkpoint of an earlier version has none: there all classes were as long."""
    for kept, wall in (({"wall": 90.0}, 90.0), ({"training": 7.0, "exchange": 5.0}, 7.0)):
        clocks, begun = Clocks(), now[0]
        clocks.go_on_from(kept)
        now[0] += 4.0
        assert clocks.wall_seconds == wall + now[0] - begun


def test_processor_time_is_that_of_steps_and_goes_on(now, monkeypatch):
    used = [5.0]
    monkeypatch.setattr(time, "process_time", lambda: used[0])
    clocks = Clocks()
    clocks.go_on_from({"processor": 100.0})
    used[0] = 7.0  # for the set-up
    clocks.set_out()
    for end in (8.0, 11.0):
        used[0] = end
        clocks.step_done()
    used[0] = 50.0
    assert clocks.processor_seconds == clocks.seconds()["processor"] == 104.0


def test_clocks_of_exchanges_forget_the_rehearsal(now):
    clocks = ExchangeClocks()
    with clocks.waiting, clocks.center:
        now[0] = 3.0
    assert clocks.waiting.seconds == clocks.center.seconds == 3.0
    clocks.clear()
    assert clocks.waiting.seconds == clocks.center.seconds == 0.0


def test_share_without_a_batch_is_that_of_the_training_time():
    clocks = Clocks()
    assert clocks.data_share == 0.0
    clocks.training.seconds, clocks.batch.seconds = 8.0, 2.0
    assert clocks.data_share == 0.25
