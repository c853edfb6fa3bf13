"""The words of a bench that predicts steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_that_predicts_steps_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def measure(network: str, methods: tuple[str, ...], **options: Any) -> dict[str, int]:
        del options["tell"]
        seen.extend((network, methods, options))
        return {"rounds": 3}

    monkeypatch.setattr("knltrain.bench.predict.benchmark.run_predict_benchmark", measure)
    monkeypatch.setattr(
        "knltrain.bench.predict.table.format_table", lambda report: f"table {report}"
    )
    report = tmp_path / "report.json"
    words = (
        "--methods",
        "sync_sgd, seasgd",
        "--link-gbits",
        "1, 2.5",
        "--steps",
        "16",
        "--nodes",
        "4",
    )
    shared = ("--workers-per-core", "2")
    result = invoke("bench", "predict", *words, *shared, "--json", str(report))
    assert result.output == "table {'rounds': 3}\n"
    network, methods, options = seen
    assert (network, methods) == ("lenet", ("sync_sgd", "seasgd"))
    assert options == {
        "nodes": 4, "workers": 2, "gbits": [1.0, 2.5], "fitted_gbits": [0.5, 2.0, 40.0],
        "batch": 32, "steps": 16, "rounds": 3, "workers_per_core": 2,
    }  # fmt: skip
    assert json.loads(report.read_text()) == {"rounds": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--link-gbits", "fast"), "'fast': expected numbers with commas between them, as 2.5,5"),
        (("--steps", "1"), "1 is not in the range x>=8"),
        (("--workers", "1"), "1 is not in the range x>=2"),
    ],
)
def test_words_that_cannot_be_are_refused(
    invoke: Invoke, options: tuple[str, ...], message: str
) -> None:
    result = invoke("bench", "predict", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
