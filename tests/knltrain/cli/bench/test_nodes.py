"""The words of a bench of several hosts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.errors import ConfigError

Invoke = Callable[..., Result]


def test_a_bench_of_hosts_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def measured(*arguments: object, **named: object) -> dict[str, int]:
        del named["tell"]
        seen.append((arguments, named))
        return {"nodes": 3}

    monkeypatch.setattr("knltrain.bench.nodes.benchmark.run_nodes_benchmark", measured)
    monkeypatch.setattr("knltrain.bench.nodes.table.format_table", lambda report: f"table {report}")
    path = tmp_path / "report.json"
    options = ("--network", "vgg-16", "--trainings", "one-host,ccl", "--nodes", "3")
    more = ("--gbits", "25", "--batch", "16", "--steps", "4", "--rounds", "5")
    more += ("--workers-per-core", "2", "--trace-steps", "3", "--latency-us", "50")
    result = invoke("bench", "nodes", *options, *more, "--json", str(path))
    assert result.output == "table {'nodes': 3}\n"
    named = {"nodes": 3, "gbits": 25.0, "batch": 16, "steps": 4, "rounds": 5}
    named |= {"workers_per_core": 2, "trace_steps": 3, "traces": tmp_path}
    named |= {"latency_us": 50.0}
    assert seen == [(("vgg-16", ("one-host", "ccl")), named)]
    assert json.loads(path.read_text()) == {"nodes": 3}


def test_a_link_without_speed_is_refused(invoke: Invoke) -> None:
    result = invoke("bench", "nodes", "--gbits", "0")
    assert result.exit_code == 2
    assert "0" in result.output


def test_traces_without_a_place_are_refused(invoke: Invoke) -> None:
    result = invoke("bench", "nodes", "--trace-steps", "3")
    assert isinstance(result.exception, ConfigError)
    assert "traces are kept beside the report: expected --json" in str(result.exception)
