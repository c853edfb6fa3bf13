"""The words of a bench of DDP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
ExitCode = Callable[..., int | str | None]


def test_a_bench_of_ddp_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    rooms = "knltrain.bench.ddp"
    measure = f"{rooms}.benchmark.run_ddp_benchmark"
    monkeypatch.setattr(measure, lambda *arguments: seen.append(arguments) or {"workers": 3})
    monkeypatch.setattr(f"{rooms}.table.format_table", lambda report: f"table {report}")
    path = tmp_path / "report.json"
    options = ("--backends", "gloo", "--workers", "3", "--width", "512", "--rounds", "5")
    result = invoke("bench", "ddp", *options, "--json", str(path))
    assert result.output == "table {'workers': 3}\n"
    assert seen == [(("gloo",), 3, 512, 32, 5)]
    assert json.loads(path.read_text()) == {"workers": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--backends", "glo"), "did you mean 'gloo'"),
        (("--width", "60"), "--width 60: expected a multiple of 8"),
        (("--json", "missing/report.json"), "there is no folder 'missing'"),
    ],
)
def test_a_bench_of_ddp_that_cannot_be_is_refused(
    exit_code: ExitCode, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("bench", "ddp", *options) == 2
    assert message in capsys.readouterr().err
