"""What is asked of all workers between two steps: all do it at one meeting, and nobody hangs."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from knltrain.errors import ExchangeTimeout
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.board import OpenRound, RequestBoard
from knltrain.exchange.transports.loopback import Loopback
from knltrain.worker import termination
from knltrain.worker.observer import Observer
from knltrain.worker.periodic import DueSteps
from knltrain.worker.requests import BoardRequests, NoRequests
from vectorized_ops.reference import elastic

TOTAL = 300
PERIOD = 50


def _method(schedule="synchronous", period=1):
    strategy = SynchronousStrategy if schedule == "synchronous" else AsynchronousStrategy
    return Method("easgd", EASGD(0.2, elastic), strategy, period, schedule)


class Gate:
    """Where the last of three workers waits after ten steps; none passes it before it is there."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_by(self, rank):
        if rank == 2:
            self.reached.set()
        assert (self.opened if rank == 2 else self.reached).wait(60)


class Notes(Observer):
    """Notes every meeting of its worker, which may have to pass a gate."""

    def __init__(self, rank=0, gate=None):
        self.due = DueSteps(PERIOD, TOTAL)
        self.rank, self.gate = rank, gate
        self.found = []

    def step_done(self, _worker, step, *_):
        if self.gate is not None and step == 10:
            self.gate.pass_by(self.rank)

    def is_due(self, since, step):
        return self.due.between(since, step)

    def met(self, worker):
        self.found.append(("due", worker.progress.step, worker.progress.worker_steps))

    def asked(self, worker):
        self.found.append(("asked", worker.progress.step, worker.progress.worker_steps))


@pytest.fixture
def board():
    made = RequestBoard.create(3)
    yield made
    made.close()


@pytest.fixture
def team(in_threads, make_worker, initial, board, monkeypatch):
    """team(method, ask, gate): what three workers note of their meetings, and their last steps.

    `ask(steps)` goes on beside them, in a thread; `steps()` are the steps for which they have set
    out.
    """
    monkeypatch.setattr(termination, "MEETING_SECONDS", 20.0)

    def train(method, ask, gate=None, termination="each"):
        def one(transport):
            own = RequestBoard.attach(os.dup(board.fd))
            notes = Notes(transport.rank, gate)
            with make_worker(
                method,
                transport=transport,
                steps=TOTAL,
                termination=termination,
                requests=BoardRequests(own, transport.rank, transport, method, 20.0),
                observers=[notes],
            ) as worker:
                return worker.run(), worker.step, notes.found

        asking = threading.Thread(target=ask, args=(lambda: board.lines[1:].tolist(),))
        asking.start()
        try:
            return in_threads(initial.size, 3, one)
        finally:
            asking.join()

    return train


def _await(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(1e-4)


def _round(board, number, stops=False, pause_seconds=0.0, then=lambda: None):
    """Hold a round, and open it after a while, as when other nodes have to tell."""
    step = board.hold(number)
    time.sleep(pause_seconds)
    board.open(OpenRound(number, step, stops))
    then()
    _await(lambda: board.answered(number))


def test_nobody_asks_a_worker_that_no_process_has_started():
    assert NoRequests().look(3) is False
    assert NoRequests().agree(3) is None


@pytest.mark.parametrize("schedule", ["synchronous", "round_robin"])
def test_workers_that_wait_for_each_other_all_meet_after_the_same_step(team, board, schedule):
    def ask(steps):
        for number in range(1, 9):
            _await(lambda number=number: min(steps()) > 20 * number)
            _round(board, number, pause_seconds=0.002 * (number % 3))

    ends = team(_method(schedule), ask)
    found = ends[0][2]
    assert [end[2] for end in ends] == [found] * 3
    assert [end[1] for end in ends] == [TOTAL] * 3
    asked = [step for kind, step, _ in found if kind == "asked"]
    assert len(asked) == 8
    assert asked == sorted(asked)
    assert [step for kind, step, _ in found if kind == "due"] == list(range(50, 301, 50))
    assert all(steps == (step,) * 3 for _, step, steps in found)


def test_run_that_is_to_stop_stops_after_the_step_that_none_has_passed(team, board):
    def ask(steps):
        _await(lambda: min(steps()) > 30)
        _round(board, 1, stops=True)

    ends = team(_method(), ask)
    assert [result for result, _, _ in ends] == [None] * 3
    (kind, step, steps), *_ = reversed(ends[0][2])
    assert (kind, steps) == ("asked", (step,) * 3)
    assert [own for _, own, _ in ends] == [step] * 3


@pytest.mark.parametrize("termination", ["each", "average"])
def test_workers_that_come_at_any_time_come_as_they_are(team, board, termination):
    """Those that are slow are not waited for to come as far as the others are."""
    gate = Gate()

    def ask(steps):
        # Each of the others may be far behind: by the average, one alone brings all to a meeting.
        _await(lambda: max(steps()) > 20)
        _round(board, 1, then=gate.opened.set)
        _await(lambda: sum(steps()) > 180)
        _round(board, 2, stops=True)

    ends = team(_method("first_come"), ask, gate, termination)
    found = ends[0][2]
    assert [end[2] for end in ends] == [found] * 3
    asked = [(step, steps) for kind, step, steps in found if kind == "asked"]
    assert len(asked) == 2
    for step, steps in asked:
        assert step == (min(steps) if termination == "each" else sum(steps) // 3)
    assert max(asked[0][1]) >= 20 > 10 == asked[0][1][2]
    assert asked[1][1] == tuple(own for _, own, _ in ends)
    due = [step for kind, step, _ in found if kind == "due"]
    assert all(step >= expected for step, expected in zip(due, range(50, 301, 50), strict=False))
    assert len(due) == asked[1][0] // PERIOD


def test_who_waits_for_a_meeting_that_is_due_waits_on_after_one_that_was_asked_for(team, board):
    gate = Gate()

    def ask(steps):
        _await(lambda: min(steps()[:2]) > PERIOD)  # they wait for the third one
        _round(board, 1, then=gate.opened.set)

    ends = team(_method("first_come"), ask, gate)
    found = ends[0][2]
    assert [end[2] for end in ends] == [found] * 3
    assert found[0] == ("asked", 10, (PERIOD, PERIOD, 10))
    assert found[1:] == [("due", due, (due,) * 3) for due in range(50, 301, 50)]
    assert [result.steps for result, _, _ in ends] == [TOTAL] * 3


def test_run_that_is_asked_before_its_first_step_stops_there(team, board):
    board.open(OpenRound(1, board.hold(1), stops=True))
    ends = team(_method(), lambda _: None)
    assert ends == [(None, 0, [("asked", 0, (0, 0, 0))])] * 3


def test_run_that_is_at_its_end_ends(make_worker, initial):
    board = RequestBoard.create(1)
    board.open(OpenRound(1, board.hold(1), stops=True))
    part, notes = Loopback(initial.size), Notes()
    requests = BoardRequests(RequestBoard.attach(os.dup(board.fd)), 0, part, _method(), 1.0)
    with make_worker(
        _method(), transport=part, steps=0, requests=requests, observers=[notes]
    ) as worker:
        result = worker.run()
    assert result is not None
    assert notes.found == []
    board.close()


def test_round_that_nobody_opens_is_not_waited_for_for_ever():
    board = RequestBoard.create(1)
    board.hold(1)
    requests = BoardRequests(board, 0, Loopback(3), _method(), 0.2)
    with pytest.raises(ExchangeTimeout, match=r"waited 0\.2 s in vain to hear after which step"):
        requests.look(0)
    requests.close()


def test_no_step_begins_while_a_round_is_held(board):
    requests = BoardRequests(RequestBoard.attach(os.dup(board.fd)), 1, Loopback(3), _method(), 20)
    assert requests.look(4) is False
    assert board.hold(1) == 5
    looked = []
    looking = threading.Thread(target=lambda: looked.append(requests.look(5)))
    looking.start()
    time.sleep(0.05)
    assert looked == []
    board.open(OpenRound(1, 5, stops=False))
    looking.join()
    assert looked == [True]
    assert np.array_equal(board.lines[1:], [0, 6, 0])
    requests.close()
