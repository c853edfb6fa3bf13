"""Scaling of runs, from their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knltrain.errors import RunFolderError
from knltrain.scaling import draw_scaling, scaling_of, told


def run(folder: Path, workers: int, rates: list[float], batch: int, **more: Any) -> Path:
    folder.mkdir()
    result = {
        "network": "lenet",
        "method": "sync_sgd",
        "backend": "cpu",
        "workers": workers,
        "batch": batch,
        "images_per_second": sum(rates) / len(rates),
        "exchange_share": 0.1,
        "communication_share": 0.2,
        "test_accuracy": None,
        "train_seconds": 12.5,
        **more,
    }
    (folder / "result.json").write_text(json.dumps(result))
    records = [{"kind": "train", "images_per_second": each} for each in [1.0, *rates]]
    lines = [json.dumps(each) for each in (*records, {"kind": "test"})]
    (folder / "metrics-0.jsonl").write_text("\n".join([*lines, ""]))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """On two workers, and on one; the first rate of each is of its beginning."""
    steady = [100.0, 101.0, 99.0, 100.0, 100.0, 100.0]
    return [
        run(tmp_path / "two", 2, [1.5 * each for each in steady], 64, nodes=2),
        run(tmp_path / "one", 1, steady, 32),
    ]


def test_efficiency_is_by_worker_of_the_smallest_run(runs: list[Path]) -> None:
    report = scaling_of(runs)
    assert report["scaling"] == "weak"
    one, two = report["rows"]
    assert [row["run"] for row in (one, two)] == ["one", "two"]
    assert (one["nodes"], two["nodes"]) == (1, 2)
    assert (one["efficiency"], one["lowest_efficiency"]) == (1.0, None)
    assert two["efficiency"] == pytest.approx(0.75)
    assert 0.73 < two["lowest_efficiency"] < 0.75 < two["highest_efficiency"] < 0.77
    assert report == scaling_of(runs)


@pytest.mark.parametrize(("batch", "expected"), [(64, "weak"), (32, "strong"), (48, "mixed")])
def test_the_kind_of_scaling_follows_from_the_batches(
    runs: list[Path], tmp_path: Path, batch: int, expected: str
) -> None:
    other = run(tmp_path / "other", 2, [150.0], batch)
    assert scaling_of([runs[1], other])["scaling"] == expected


def test_short_runs_have_no_interval(runs: list[Path], tmp_path: Path) -> None:
    other = run(tmp_path / "other", 4, [300.0, 310.0], 128)
    row = scaling_of([runs[1], other])["rows"][1]
    assert row["lowest_efficiency"] is row["highest_efficiency"] is None
    assert row["efficiency"] > 0.7


def test_runs_that_cannot_be_compared_are_refused(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="different numbers of workers; these have 1"):
        scaling_of(runs[1:])
    other = run(tmp_path / "other", 4, [300.0], 128, method="easgd")
    with pytest.raises(RunFolderError, match="runs of different methods: sync_sgd, easgd; expec"):
        scaling_of([*runs, other])
    with pytest.raises(RunFolderError, match="the run has not come to its end"):
        scaling_of([tmp_path])


def test_the_report_is_told_and_drawn(runs: list[Path], tmp_path: Path) -> None:
    report = scaling_of(runs)
    lines = told(report).splitlines()
    assert lines[0] == "weak scaling"
    assert lines[-1].split()[:6] == ["two", "2", "2", "64", "150.0", "75.0"]
    draw_scaling(report, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes()[:4] == b"\x89PNG"
