"""The words of a report on scaling."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_runs_are_compared_and_the_report_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr("knltrain.scaling.scaling_of", lambda runs: seen.append(runs) or {"n": 2})
    monkeypatch.setattr("knltrain.scaling.told", lambda report: f"table {report}")
    monkeypatch.setattr("knltrain.scaling.draw_scaling", lambda *given: seen.append(given))
    folders = [tmp_path / name for name in ("one", "two")]
    for each in folders:
        each.mkdir()
    files = tmp_path / "a.json", tmp_path / "a.png"
    options = ("--json", str(files[0]), "--picture", str(files[1]))
    shown = invoke("report-scaling", *map(str, folders), *options)
    assert shown.output == "table {'n': 2}\n"
    assert json.loads(files[0].read_text()) == {"n": 2}
    assert seen == [tuple(folders), ({"n": 2}, files[1])]


def test_a_folder_is_needed(invoke: Invoke) -> None:
    assert "Missing argument 'RUN_FOLDERS...'" in invoke("report-scaling").output
