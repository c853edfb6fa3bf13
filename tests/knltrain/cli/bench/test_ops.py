"""The words of a bench of operations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_of_operations_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, ...]] = []

    def measure(*arguments: object) -> dict[str, object]:
        seen.append(arguments)
        return {"network": "alexnet"}

    monkeypatch.setattr("knltrain.bench.ops.benchmark.run_ops_benchmark", measure)
    table = "knltrain.bench.ops.report.format_table"
    monkeypatch.setattr(table, lambda report: f"table of {report['network']}")
    path = tmp_path / "report.json"
    options = ("--network", "alexnet", "--operations", "convolution,relu", "--no-winograd")
    result = invoke("bench", "ops", *options, "--threads", "2", "--json", str(path))
    assert result.output == "table of alexnet\n"
    implementations, operations = ("numba", "onednn"), ("convolution", "relu")
    assert seen == [("alexnet", 32, implementations, 2, 5, operations, False)]
    assert json.loads(path.read_text()) == {"network": "alexnet"}
