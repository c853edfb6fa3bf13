"""The words of a bench of whole networks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_of_networks_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def measure(*arguments: Any, **options: Any) -> dict[str, int]:
        del options["tell"]
        seen.extend((*arguments, options))
        return {"steps": 3}

    monkeypatch.setattr("knltrain.bench.cnn.benchmark.run_cnn_benchmark", measure)
    monkeypatch.setattr("knltrain.bench.cnn.table.format_table", lambda report: f"table {report}")
    path = tmp_path / "report.json"
    options = ("--networks", "lenet, alexnet", "--workers", "1,2", "--hosts", "2", "--batch", "8")
    result = invoke("bench", "cnn", *options, "--json", str(path), "--profiles", str(tmp_path))
    assert result.output == "table {'steps': 3}\n"
    *given, more = seen
    assert given == [("lenet", "alexnet"), [1, 2], [2]]
    assert more == {"batch": 8, "steps": 10, "method": "layerwise_sgd", "profiles": tmp_path}
    assert json.loads(path.read_text()) == {"steps": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", "1,two"), "'1,two': expected whole numbers with commas between them"),
        (("--workers", "1,2,01"), "1 is there twice: expected it once"),
        (("--networks", "lenet, lenet"), "lenet is there twice: expected it once"),
        (("--picture", "kinds.gif"), "expected a name that ends in one of .png, .svg, .pdf"),
        (("--json", "missing/report.json"), "there is no folder 'missing'"),
    ],
)
def test_bad_options_are_named(
    exit_code: Callable[..., int | str | None],
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    assert exit_code("bench", "cnn", *options) == 2
    assert message in capsys.readouterr().err
