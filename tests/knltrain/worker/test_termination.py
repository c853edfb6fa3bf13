"""Workers of different speeds end together, by each rule, and meet in between: nobody hangs."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knltrain.checkpoint.contents import RunIdentity, WorkerState
from knltrain.checkpoint.writer import CheckpointWriter
from knltrain.errors import NonFiniteLoss, PeerLost
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.loopback import Loopback
from knltrain.worker import termination
from knltrain.worker.observer import Observer
from knltrain.worker.periodic import CheckpointObserver, DueSteps
from knltrain.worker.termination import MEETING_SECONDS, RunProgress, Synchronisation, step_of_run
from vectorized_ops.reference import elastic

RULES = ("each", "master", "fastest", "average")
IN_THE_FIXTURE = (HealthCheck.function_scoped_fixture,)


@pytest.mark.parametrize(
    ("rule", "expected"), [("each", 7), ("master", 3), ("fastest", 9), ("average", 6)]
)
def test_step_of_the_run_by_each_rule(rule, expected):
    assert step_of_run(rule, np.array([3, 9, 7, 7]), rank=2) == expected


def test_mean_of_large_counts_is_not_rounded():
    counts = np.array([2**61 + 1, 2**61 + 2])
    assert step_of_run("average", counts, 0) == 2**61 + 1


@given(
    rule=st.sampled_from(RULES),
    counts=st.lists(st.integers(0, 100), min_size=1, max_size=6),
    more=st.lists(st.integers(0, 9), min_size=6, max_size=6),
    rank=st.integers(0, 5),
)
def test_step_of_the_run_never_falls_and_is_that_of_workers_who_are_level(rule, counts, more, rank):
    rank %= len(counts)
    before = np.array(counts)
    after = before + more[: len(counts)]
    assert step_of_run(rule, before, rank) <= step_of_run(rule, after, rank)
    assert step_of_run(rule, np.full(len(counts), 5), rank) == 5


@pytest.mark.parametrize("rule", RULES)
def test_worker_alone_ends_by_every_rule_after_its_steps(rule):
    progress = RunProgress(rule, 3, Loopback(1))
    found = []
    for step in range(4):
        progress.look(step)
        found.append((progress.step, progress.worker_steps, progress.ended))
    assert found == [(0, (0,), False), (1, (1,), False), (2, (2,), False), (3, (3,), True)]


def test_where_each_ends_by_itself_nobody_looks_at_the_others(monkeypatch):
    transport = Loopback(1)
    monkeypatch.setattr(transport, "progress", None)
    transport.workers = 3
    progress = RunProgress("each", 9, transport)
    progress.look(4)
    assert (progress.step, progress.worker_steps) == (4, (4, 4, 4))


class Meets(Observer):
    """Notes where its worker and the run are at each meeting."""

    def __init__(self, due):
        self.due = due
        self.found = []

    def is_due(self, since, step):
        return self.due.between(since, step)

    def met(self, worker):
        self.found.append((worker.progress.step, worker.step, worker.progress.worker_steps))


class Rests(Observer):
    """Sleeps for some of so many milliseconds after every step."""

    def __init__(self, milliseconds, seed):
        self.seconds = milliseconds / 1000
        self.pace = np.random.default_rng(seed)

    def step_done(self, worker, *_):
        if self.seconds:
            time.sleep(self.pace.random() * self.seconds)


@pytest.fixture
def team(in_threads, make_worker, initial, monkeypatch):
    """team(rule, starts, steps, observers): workers at their ends, and their results.

    Of as many workers as there are `starts`, their own first steps; `observers(rank)` are theirs.
    """
    monkeypatch.setattr(termination, "MEETING_SECONDS", 20.0)

    def train(rule, starts, steps, observers, schedule="first_come"):
        strategy = SynchronousStrategy if schedule == "synchronous" else AsynchronousStrategy

        def one(transport):
            worker = make_worker(
                Method("async_easgd", EASGD(0.2, elastic), strategy, 1, schedule),
                transport=transport,
                steps=steps,
                start=WorkerState(starts[transport.rank], initial, initial, {}, {}),
                observers=observers(transport.rank),
                termination=rule,
            )
            return worker, worker.run()

        return in_threads(initial.size, len(starts), one)

    return train


@st.composite
def runs(draw):
    """Rule, first steps of the workers, their pauses in milliseconds, length, periods."""
    rule = draw(st.sampled_from(RULES))
    workers = draw(st.integers(1, 4))
    starts = draw(st.lists(st.integers(0, 5), min_size=workers, max_size=workers))
    if rule == "each":
        starts = [starts[0]] * workers
    pauses = draw(st.lists(st.sampled_from([0, 0.2, 4]), min_size=workers, max_size=workers))
    periods = draw(st.lists(st.sampled_from([0, 1, 1.5, 2, 3, 7]), min_size=2, max_size=2))
    return rule, starts, pauses, draw(st.integers(0, 14)), periods


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=IN_THE_FIXTURE)
@given(drawn=runs())
def test_workers_of_any_speeds_meet_and_end_together(team, drawn):
    rule, starts, pauses, steps, periods = drawn
    dues = [DueSteps(period, steps) for period in periods]
    synchronisation = [[Meets(due) for due in dues] for _ in starts]
    ends = team(
        rule, starts, steps, lambda rank: [*synchronisation[rank], Rests(pauses[rank], rank)]
    )
    begun = step_of_run(rule, np.array(starts), 0)
    [result] = {result for _, result in ends}
    assert result.worker_steps == tuple(worker.step for worker, _ in ends)
    if begun >= steps:
        assert result.worker_steps == tuple(starts)
    else:
        assert result.steps == step_of_run(rule, np.array(result.worker_steps), 0) == steps
    for number, due in enumerate(dues):
        expected = [step for step in range(begun + 1, steps + 1) if due.between(step - 1, step)]
        for rank, start in enumerate(starts):
            found = synchronisation[rank][number].found
            assert [step for step, _, _ in found] == expected
            assert found == [(step, counts[rank], counts) for step, _, counts in found]
            assert [counts for *_, counts in found] == [
                counts for *_, counts in synchronisation[0][number].found
            ]
            own = [start, *(own for _, own, _ in found)]
            assert all(earlier < later for earlier, later in pairwise(own))


class Counts(Observer):
    """The images that a worker knows of before its first step and after each."""

    def __init__(self):
        self.found = []

    def started(self, worker):
        self.found.append(worker.images_done)

    def step_done(self, worker, *_):
        self.found.append(worker.images_done)


@pytest.mark.parametrize("rule", ["each", "average"])
def test_images_of_a_run_that_goes_on_never_become_fewer(team, rule):
    """Rates are differences of them; the other worker is 3 steps ahead when it goes on."""
    counts = [Counts(), Counts()]
    team(rule, [5, 8], 12, lambda rank: [counts[rank]])
    for each in counts:
        assert each.found == sorted(each.found)


class StandsStill(Observer):
    """After its second step one worker stands still until another has come far enough."""

    def __init__(self, rank, is_far):
        self.rank = rank
        self.is_far = is_far
        self.stands, self.may_go = threading.Event(), threading.Event()

    def step_done(self, worker, step, *_):
        if worker.team.rank != self.rank:
            assert self.stands.wait(20)
            if self.is_far(worker):
                self.may_go.set()
        elif step == 2:
            self.stands.set()
            assert self.may_go.wait(20)


@pytest.mark.parametrize("schedule", ["first_come", "lock_free"])
@pytest.mark.parametrize(
    ("rule", "expected"),
    [("each", (10, 10)), ("master", (10, 3)), ("fastest", (10, 3)), ("average", (18, 3))],
)
def test_worker_that_stands_still_is_not_waited_for(team, rule, expected, schedule):
    """The step that it takes when it goes on is its last one, but where each does all its own."""
    still = StandsStill(1, lambda worker: worker.progress.ended)
    ends = team(rule, [0, 0], 10, lambda rank: [still], schedule)
    for _, result in ends:
        assert (result.steps, result.worker_steps) == (10, expected)
        images = sum(expected) * 6
        assert result.images_per_second == pytest.approx(images / result.train_seconds)


def test_others_go_past_the_end_for_as_long_as_the_master_stands_still(team):
    still = StandsStill(0, lambda worker: worker.step == 25)
    ends = team("master", [0, 0], 10, lambda rank: [still])
    (first, second) = ends[0][1].worker_steps
    assert first == 10
    assert second >= 25


class SpoilsOneAtTheMeeting(Meets):
    """Leaves worker 1 without a finite local just before a checkpoint is written."""

    def met(self, worker):
        if worker.team.rank == 1:
            worker.parameters[0] = np.nan


def test_checkpoint_that_the_next_loss_condemns_is_set_aside_by_the_step_of_the_run(
    team, tmp_path, tiny_network
):
    identity = RunIdentity(tiny_network, 2, "async_easgd", 1)

    class Keeps(Observer):
        """Makes the observer only when its worker's transport is there."""

        def started(self, worker):
            writer = CheckpointWriter(tmp_path, identity, worker.team, 1)
            worker.observers.append(CheckpointObserver(writer, DueSteps(5, 100)))

    def observers(rank):
        return [SpoilsOneAtTheMeeting(DueSteps(5, 100)), Keeps()]

    with pytest.raises((NonFiniteLoss, PeerLost)):
        team("average", [6, 2], 100, observers)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-5.diverged"]


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
