"""The words of a bench of one-sided work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_of_one_sided_work_is_shown_and_written(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    room = "knltrain.bench.one_sided.benchmark"
    measure = f"{room}.run_one_sided_benchmark"
    monkeypatch.setattr(measure, lambda *arguments: seen.append(arguments) or {"bytes": 3})
    monkeypatch.setattr(f"{room}.format_table", lambda report: f"table {report}")
    path = tmp_path / "report.json"
    options = ("--size", "64K", "--rounds", "5", "--owner", "python", "--transport", "tcp")
    result = invoke("bench", "one-sided", *options, "--json", str(path))
    assert result.output == "table {'bytes': 3}\n"
    assert seen == [(65536, 5, "python", "tcp")]
    assert json.loads(path.read_text()) == {"bytes": 3}


def test_a_sweep_has_its_own_table(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    room = "knltrain.bench.one_sided.sweep"
    measure = f"{room}.run_sweep"
    monkeypatch.setattr(measure, lambda *arguments: seen.append(arguments) or {"bytes": 3})
    monkeypatch.setattr(f"{room}.format_sweep", lambda report: f"sweep {report}")
    result = invoke("bench", "one-sided", "--size", "64K", "--rounds", "5", "--processes", "2, 32")
    assert result.output == "sweep {'bytes': 3}\n"
    assert seen == [(65536, 5, [2, 32], "shm")]


@pytest.mark.parametrize(
    "options",
    [
        ("--owner", "rests"),
        ("--transport", "mail"),
        ("--size", "5"),
        ("--size", "4K,8K"),
        ("--rounds", "0"),
        ("--processes", "2,many"),
        ("--processes", "0"),
        ("--processes", "2", "--owner", "sleep"),
        ("--processes", "1,257"),
        ("--processes", ","),
    ],
)
def test_a_bench_of_one_sided_work_that_cannot_be_is_refused(
    invoke: Invoke, options: tuple[str, str]
) -> None:
    assert invoke("bench", "one-sided", *options).exit_code != 0
