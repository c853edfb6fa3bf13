"""The words of a bench of steps."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_report_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = pytest.importorskip("knltrain.bench.step.benchmark")
    seen: list[tuple[object, ...]] = []

    def measure(*arguments: object) -> dict[str, object]:
        seen.append(arguments)
        return {"network": "lenet"}

    monkeypatch.setattr(step, "run_step_benchmark", measure)
    table = "knltrain.bench.step.report.format_table"
    monkeypatch.setattr(table, lambda report: f"table of {report['network']}")
    path = tmp_path / "report.json"
    options = ("--batch", "32", "--peers", "torch, other", "--json", str(path))
    options += ("--ipex-python", sys.executable)
    for more in ((), ("--evaluate",)):
        result = invoke("bench", "step", *options, *more)
        assert result.output == "table of lenet\n"
    asked = "lenet", 32, ("torch", "other"), None, 7, 1, Path(sys.executable), "cpu", "float32"
    assert seen == [(*asked, False), (*asked, True)]
    assert json.loads(path.read_text()) == {"network": "lenet"}
