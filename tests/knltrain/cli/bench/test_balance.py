"""The words of the bench of unequal workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, ...]] = []

    def measure(*given: object) -> dict[str, object]:
        seen.append(given[:-1])
        return {"speeds": [1]}

    monkeypatch.setattr("knltrain.bench.balance.benchmark.run_balance_benchmark", measure)
    monkeypatch.setattr("knltrain.bench.balance.report.format_table", lambda _report: "a table")
    file = tmp_path / "found.json"
    found = invoke("bench", "balance", "--speeds", "50, 2.5", "--rounds", "2", "--json", str(file))
    assert found.exit_code == 0
    assert "a table" in found.output
    assert seen == [((50.0, 2.5), 240, 60, 2)]
    assert json.loads(file.read_text()) == {"speeds": [1]}


@pytest.mark.parametrize("speeds", ["", "fast", "4,0", "4,-1", "4,nan", "4,inf"])
def test_what_is_no_speed_is_refused(invoke: Invoke, speeds: str) -> None:
    found = invoke("bench", "balance", "--speeds", speeds)
    assert found.exit_code == 2
    assert f"'{speeds}': expected numbers of images/s above 0, as in 400,100" in found.output
