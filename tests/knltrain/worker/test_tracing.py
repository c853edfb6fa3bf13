"""A worker's first steps as a trace."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from knltrain.clocks import ACCUMULATE, READ_CENTER, UNOBSERVED, VISIT
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.board import OpenRound
from knltrain.worker.requests import Requests
from knltrain.worker.tracing import TraceObserver


@pytest.mark.parametrize(("asked", "steps"), [(2, 2), (9, 5)])
def test_trace_has_the_parts_of_the_first_steps_or_of_all(
    make_worker, easgd, tmp_path, asked, steps
):
    path = tmp_path / "trace-0.json"
    make_worker(easgd(), steps=5, observers=[TraceObserver(path, 0, asked)]).run()
    counted = _counted(path)
    assert counted["batch"] == counted["gradient"] == counted["update"] == steps
    assert counted["exchange"] >= steps


class AsksAfter(Requests):
    """Asks for a checkpoint after one step, and for a stop after another."""

    def __init__(self, kept_after, stopped_after):
        self.asked = {kept_after: OpenRound(1, kept_after, stops=False)}
        self.asked[stopped_after] = OpenRound(2, stopped_after, stops=True)

    def look(self, own_steps):
        return own_steps in self.asked

    def agree(self, own_steps):
        return self.asked.pop(own_steps, None)


def test_trace_of_a_run_that_is_stopped_has_the_steps_up_to_there(make_worker, easgd, tmp_path):
    path = tmp_path / "trace-0.json"
    observers = [TraceObserver(path, 0, 9)]
    make_worker(easgd(), steps=20, observers=observers, requests=AsksAfter(2, 4)).run()
    assert _counted(path)["update"] == 4


def test_trace_has_the_parts_of_visits(make_worker, easgd, tmp_path, monkeypatch):
    """Those of the thread beside are in a line of their own."""
    observed = []

    def visit(strategy, step):
        marks, beside = observed[0]
        for line, number in ((marks, READ_CENTER), (beside, ACCUMULATE)):
            line.mark(-1)
            line.mark(number)

    monkeypatch.setattr(SynchronousStrategy, "marks_visits", True)
    monkeypatch.setattr(SynchronousStrategy, "observe", lambda _, *marks: observed.append(marks))
    monkeypatch.setattr(SynchronousStrategy, "step_begins", visit)
    path = tmp_path / "trace-0.json"
    make_worker(easgd(), steps=3, observers=[TraceObserver(path, 0, 2)]).run()
    events = json.loads(path.read_text())["traceEvents"]
    parts = [each for each in events if each["name"] in VISIT]
    assert Counter(each["name"] for each in parts) == {"trgw": 2, "tugw": 2}
    lines = {each["name"]: each["tid"] for each in parts}
    assert lines["trgw"] != lines["tugw"]
    assert all(each["dur"] >= 0 for each in parts)
    assert observed[1] == (UNOBSERVED, UNOBSERVED)


def _counted(path):
    events = json.loads(path.read_text())["traceEvents"]
    return Counter(event["name"] for event in events if event["ph"] == "X")
