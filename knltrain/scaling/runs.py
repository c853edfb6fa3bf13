"""What is read of the folders of runs, to compare them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.metrics import read_metrics
from knltrain.report import read_result

_OF_ONE_RUN: Final = ("name =", "seed =", "runs_folder =")

Floats: TypeAlias = npt.NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class ScaledRun:
    """One run, or several of equal settings; `rates` are images per second of parts of them.

    The first part of each is left out. Figures are medians; `curve` are seconds of training and
    accuracies of the first one.
    """

    name: str
    repeats: int
    nodes: int
    workers: int
    batch: int
    images_per_second: float
    rates: Floats
    communication_share: float | None
    test_accuracy: float | None
    train_seconds: float | None
    curve: tuple[tuple[float, float], ...]

    @property
    def per_worker(self) -> float:
        """Images per second of a worker."""
        return self.images_per_second / self.workers

    @property
    def batch_per_worker(self) -> float:
        """Images of a step that a worker takes, in the mean."""
        return self.batch / self.workers


def results_of(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """The result of each run; RunFolderError for one that has not come to its end."""
    return [read_result(folder) for folder in folders]


def scaled_runs(folders: Sequence[Path], results: Sequence[Mapping[str, Any]]) -> list[ScaledRun]:
    """Runs that differ in name and seed alone are one; those of the fewest workers come first."""
    alike: dict[tuple[int, int, int, str], list[tuple[Path, Mapping[str, Any]]]] = {}
    for folder, result in zip(folders, results, strict=True):
        batch = int(result.get("batch", 0)) * int(result.get("iter_size", 1))
        size = int(result["workers"]), batch, int(result.get("nodes", 1))
        alike.setdefault((*size, _settings(folder)), []).append((folder, result))
    return [_together(*size[:3], alike[size]) for size in sorted(alike)]


def _settings(folder: Path) -> str:
    """The run's configuration without what tells it from equal runs."""
    try:
        lines = (folder / "config.toml").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    tables = next((n for n, line in enumerate(lines) if line.startswith("[")), len(lines))
    own = [line for line in lines[:tables] if not line.startswith(_OF_ONE_RUN)]
    return "\n".join([*own, *lines[tables:]])


def _together(
    workers: int, batch: int, nodes: int, runs: Sequence[tuple[Path, Mapping[str, Any]]]
) -> ScaledRun:
    records = [read_metrics(folder / "metrics-0.jsonl") for folder, _ in runs]
    trained = [[each for each in run if each["kind"] == "train"] for run in records]
    rates = [each["images_per_second"] for run in trained for each in run[1:]]
    tested = [each for each in records[0] if each["kind"] == "test"]
    told = [result for _, result in runs]
    speed = _median(told, "images_per_second")
    assert speed is not None
    return ScaledRun(
        name=runs[0][0].name,
        repeats=len(runs),
        nodes=nodes,
        workers=workers,
        batch=batch,
        images_per_second=speed,
        rates=np.array(rates, np.float64),
        communication_share=_median(told, "communication_share"),
        test_accuracy=_median(told, "test_accuracy"),
        train_seconds=_median(told, "train_seconds"),
        curve=tuple((float(each["seconds"]), float(each["accuracy"])) for each in tested),
    )


def _median(results: Sequence[Mapping[str, Any]], name: str) -> float | None:
    known = [float(each[name]) for each in results if each.get(name) is not None]
    return statistics.median(known) if known else None
