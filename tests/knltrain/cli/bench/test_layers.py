"""The words of a bench of layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


def test_a_bench_of_layers_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    room = "knltrain.bench.layers.benchmark"
    measure = f"{room}.run_layers_benchmark"
    monkeypatch.setattr(measure, lambda *arguments: seen.append(arguments) or {"workers": 3})
    monkeypatch.setattr(f"{room}.format_table", lambda report: f"table {report}")
    path = tmp_path / "report.json"
    options = ("--network", "alexnet", "--workers", "3", "--chunks", "2", "--steps", "5")
    result = invoke("bench", "layers", *options, "--json", str(path))
    assert result.output == "table {'workers': 3}\n"
    assert seen == [("alexnet", 3, 32, 2, 5, "numba")]
    assert json.loads(path.read_text()) == {"workers": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--network", "lenett"), "did you mean 'lenet'"),
        (("--workers", "1"), "--workers 1: expected at least 2"),
        (("--implementation", "nunba"), "did you mean 'numba'"),
        (("--json", "missing/report.json"), "there is no folder 'missing'"),
    ],
)
def test_a_bench_of_layers_that_cannot_be_is_refused(
    exit_code: ExitCode, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("bench", "layers", *options) == 2
    assert message in capsys.readouterr().err
