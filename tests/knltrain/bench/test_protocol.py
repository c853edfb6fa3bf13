"""How contestants talk to the benchmark."""

import io
import json
import sys

from knltrain.bench import protocol


def test_serve_answers_each_line_and_ends_with_the_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.5\n2\n"))
    protocol.serve({"loss": 1.0}, lambda seconds: {"asked": seconds})
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"ready": {"loss": 1.0}}, {"asked": 0.5}, {"asked": 2.0}]


def test_steps_within_counts_at_least_one_step():
    answer = protocol.steps_within(1e-9, lambda: None)
    assert answer["steps"] == 1
    assert answer["seconds"] > 0


def test_warm_up_takes_a_few_steps_and_of_long_ones_only_the_first(monkeypatch):
    steps = []
    protocol.warm_up(lambda: steps.append("short"))
    assert len(steps) == protocol.WARM_UP_STEPS
    monkeypatch.setattr(protocol, "WARM_UP_SECONDS", 0.0)
    protocol.warm_up(lambda: steps.append("long"))
    assert steps.count("long") == 1
