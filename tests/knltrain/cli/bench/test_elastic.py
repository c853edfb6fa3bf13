"""`knltrain bench elastic`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knltrain.bench.elastic import benchmark, table
from tests.knltrain.cli.bench.test_step import Invoke


def test_a_report_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, ...]] = []

    def measure(*arguments: object) -> dict[str, object]:
        seen.append(arguments)
        return {"network": "resnet-18"}

    monkeypatch.setattr(benchmark, "run_elastic_benchmark", measure)
    monkeypatch.setattr(table, "format_table", lambda report: f"table of {report['network']}")
    path = tmp_path / "report.json"
    result = invoke("bench", "elastic", "--method", "seasgd", "--period", "4", "--json", str(path))
    assert result.output == "table of resnet-18\n"
    assert seen == [("resnet-18", 16, "seasgd", 4, 2, 7)]
    assert json.loads(path.read_text()) == {"network": "resnet-18"}
