"""How contestants talk to the benchmark."""

import io
import json
import sys

from knltrain.bench.step import protocol


def test_serve_answers_each_line_and_ends_with_the_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.5\n2\n"))
    protocol.serve({"loss": 1.0}, lambda seconds: {"asked": seconds})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"ready": {"loss": 1.0}}, {"asked": 0.5}, {"asked": 2.0}]


def stepped(monkeypatch, seconds, step_seconds):
    """What `steps_within` finds of steps that take so long, by a clock that nothing else moves."""
    clock = iter(range(10**6))
    monkeypatch.setattr(protocol.time, "perf_counter", lambda: next(clock) * step_seconds)
    return protocol.steps_within(seconds, lambda: None)


def test_short_steps_count_from_the_lead_in_on(monkeypatch):
    assert stepped(monkeypatch, 1.0, 0.125) == {"steps": 8, "seconds": 1.0}


def test_of_steps_longer_than_the_lead_in_only_the_first_does_not_count(monkeypatch):
    assert stepped(monkeypatch, 1.0, 0.5) == {"steps": 2, "seconds": 1.0}


def test_step_longer_than_all_the_time_counts(monkeypatch):
    assert stepped(monkeypatch, 1.0, 2.0) == {"steps": 1, "seconds": 2.0}


def test_warm_up_takes_a_few_steps_and_of_long_ones_only_the_first(monkeypatch):
    steps = []
    protocol.warm_up(lambda: steps.append("short"))
    assert len(steps) == protocol.WARM_UP_STEPS
    monkeypatch.setattr(protocol, "WARM_UP_SECONDS", 0.0)
    protocol.warm_up(lambda: steps.append("long"))
    assert steps.count("long") == 1
