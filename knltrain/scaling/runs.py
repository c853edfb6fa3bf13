"""What is read of the folders of runs, to compare them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.errors import RunFolderError
from knltrain.files.durable import RESULT
from knltrain.metrics import read_metrics
from knltrain.report import read_result

_METRICS: Final = "metrics-0.jsonl"
_MOST: Final = 1e100
"""Products of larger figures are no floats."""

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
    """The result of each run.

    RunFolderError for one that has not come to its end, or has figures that no run has.
    """
    return [_checked(folder / RESULT, read_result(folder)) for folder in folders]


def scaled_runs(
    folders: Sequence[Path],
    results: Sequence[Mapping[str, Any]],
    settings: Sequence[Mapping[str, Any]],
) -> list[ScaledRun]:
    """Runs of equal settings are one; those of the fewest workers come first."""
    alike: dict[tuple[int, int, int, str], list[tuple[Path, Mapping[str, Any]]]] = {}
    for folder, result, each in zip(folders, results, settings, strict=True):
        size = result["workers"], result["batch"] * result["iter_size"], result["nodes"]
        alike.setdefault((*size, json.dumps(each)), []).append((folder, result))
    return [_together(*size[:3], alike[size]) for size in sorted(alike)]


def _checked(path: Path, result: Mapping[str, Any]) -> dict[str, Any]:
    """The result, with 1 node and 1 batch in a step where it has none of them."""
    whole = {"nodes": 1, "iter_size": 1, **result}
    for name in ("workers", "nodes", "batch", "iter_size"):
        _check(path, whole, name, kinds=(int,))
    _check(path, whole, "images_per_second")
    for name in ("communication_share", "test_accuracy", "train_seconds"):
        if whole.get(name) is not None:
            _check(path, whole, name, or_zero=True)
    return whole


def _check(
    where: object,
    record: Mapping[str, Any],
    name: str,
    *,
    kinds: tuple[type, ...] = (int, float),
    or_zero: bool = False,
) -> None:
    """RunFolderError for a figure that no run writes."""
    value: Any = record.get(name)
    if type(value) not in kinds or not (0 < value < _MOST or (or_zero and value == 0)):
        kind = "number" if float in kinds else "whole number"
        raise RunFolderError(
            f"{where}: {name} is {str(value)[:60]}: expected a {kind} "
            f"{'of 0 or more' if or_zero else 'above 0'}, as a run writes; train it anew, or leave "
            "it out"
        )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of training and tests, whose figures are checked."""
    of_kind = {"train": ("images_per_second",), "test": ("seconds", "accuracy")}
    for number, record in enumerate(read_metrics(path), start=1):
        for name in of_kind.get(str(record.get("kind")), ()):
            _check(f"{path}, line {number}", record, name, or_zero=True)
        yield record


def _together(
    workers: int, batch: int, nodes: int, runs: Sequence[tuple[Path, Mapping[str, Any]]]
) -> ScaledRun:
    records = [list(_records(folder / _METRICS)) for folder, _ in runs]
    trained = [[each for each in run if each.get("kind") == "train"] for run in records]
    rates = [each["images_per_second"] for run in trained for each in run[1:]]
    tested = [each for each in records[0] if each.get("kind") == "test"]
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
