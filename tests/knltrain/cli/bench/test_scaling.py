"""The words of a bench of scaling."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_a_bench_of_scaling_is_shown_written_and_drawn(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def measure(config: Path | None, **options: Any) -> dict[str, int]:
        del options["tell"]
        seen.extend((config, options))
        return {"rounds": 3}

    monkeypatch.setattr("knltrain.bench.scaling.benchmark.run_scaling_benchmark", measure)
    monkeypatch.setattr("knltrain.scaling.told", lambda report: f"table {report}")
    monkeypatch.setattr("knltrain.scaling.draw_scaling", lambda *given: seen.append(given))
    report, picture = tmp_path / "report.json", tmp_path / "scaling.png"
    words = ("--nodes", "1,2", "--batches", "8, 16", "--scaling", "strong", "--set", "seed=3")
    words = (*words, "--workers-per-core", "2")
    files = ("--json", str(report), "--picture", str(picture), "--runs", str(tmp_path))
    result = invoke("bench", "scaling", "own.toml", *words, *files)
    assert result.output == "table {'rounds': 3}\n"
    config, options, drawn = seen
    assert config == Path("own.toml")
    assert options == {
        "nodes": [1, 2], "workers": [1, 2], "batches": [8, 16], "scaling": "strong", "rounds": 3,
        "gbits": 10.0, "workers_per_core": 2, "overrides": ("seed=3",), "runs": tmp_path,
    }  # fmt: skip
    assert drawn == ({"rounds": 3}, picture)
    assert json.loads(report.read_text()) == {"rounds": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", "one"), "'one': expected whole numbers with commas between them"),
        (("--scaling", "odd"), "'odd' is not one of 'weak', 'strong'"),
        (("--gbits", "inf"), "inf is no finite number"),
        (("--workers", "1,2,2"), "2 is there twice"),
        (("--set", "workers=3"), "--set workers: expected --workers, numbers of them on each"),
        (("--set", " nodes = 3"), "--set nodes: expected --nodes, numbers of emulated hosts"),
        (("--set", "train.batch=3"), "--set train.batch: expected --batches, images of a step"),
        (("--set", "runs_folder=x"), "--set runs_folder: expected --runs"),
        (("--set", "name=x"), "--set name: expected none"),
        (("--picture", "a.gif"), "expected a name that ends in one of"),
    ],
)
def test_bad_options_are_named(
    exit_code: Callable[..., int | str | None],
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    assert exit_code("bench", "scaling", *options) == 2
    assert message in capsys.readouterr().err
