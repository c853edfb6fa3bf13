"""The words of the starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from knltrain.bench.start import benchmark

Invoke = Callable[..., Result]


def test_options_reach_the_benchmark_and_the_report_its_file(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run(networks: Any, caches: Any, **options: Any) -> dict[str, Any]:
        del options["tell"]
        asked.append((networks, caches, options))
        return {"machine": {"model": "m"}, "batch": 8, "workers": 1, "rounds": 2, "rows": []}

    monkeypatch.setattr(benchmark, "run_start_benchmark", run)
    path = tmp_path / "report.json"
    words = ("--networks", "lenet,alexnet", "--caches", "filled", "--batch", "8", "--rounds", "2")
    invoke("bench", "start", *words, "--set", "a.b=c", "--json", str(path))
    settings = {"batch": 8, "workers": 1, "rounds": 2, "package": None, "overrides": ("a.b=c",)}
    assert asked == [(("lenet", "alexnet"), ("filled",), settings)]
    assert json.loads(path.read_text())["batch"] == 8


def test_bad_options_are_named(
    exit_code: Callable[..., int | str | None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("bench", "start", "--caches", "full") == 2
    assert "--caches full: expected empty, filled, package" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("workers", "--workers"),
        ("train.batch", "--batch,"),
        ("network.name", "--networks"),
        ("name", "none"),
        ("runs_folder", "none"),
    ],
)
def test_keys_that_options_give_are_refused(
    exit_code: Callable[..., int | str | None],
    capsys: pytest.CaptureFixture[str],
    key: str,
    expected: str,
) -> None:
    assert exit_code("bench", "start", "--set", f"{key}=3") == 2
    assert f"--set {key}: expected {expected}" in capsys.readouterr().err
