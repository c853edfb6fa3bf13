"""Scaling, from the folders of runs with different numbers of workers: a table and a picture.

Weak scaling keeps the images of a worker, strong scaling those of a batch. Efficiency is the speed
of a worker by that of a worker in the smallest run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from affinity.cli.layout import table
from knltrain.errors import RunFolderError
from knltrain.metrics import read_metrics
from knltrain.picture import BLUE, ORANGE, empty_figure, finish, save
from knltrain.report import read_result

Floats: TypeAlias = npt.NDArray[np.float64]
Kind: TypeAlias = Literal["weak", "strong", "mixed"]

SCHEMA: Final = "knltrain.scaling"
_RESAMPLES: Final = 2000
_INTERVAL: Final = (5, 95)
_LEAST_RATES: Final = 5
"""Fewer rates of a run tell no interval."""

_SAME: Final = ("network", "method", "backend")


class ScaledRun(NamedTuple):
    """One run; `rates` are the images per second of parts of it, after the first one."""

    folder: Path
    nodes: int
    workers: int
    batch: int
    images_per_second: float
    rates: Floats
    communication_share: float | None
    test_accuracy: float | None
    train_seconds: float | None

    @property
    def per_worker(self) -> float:
        """Images per second of a worker."""
        return self.images_per_second / self.workers


def scaling_of(folders: Sequence[Path]) -> dict[str, Any]:
    """The report of runs, as JSON: a row for each, the smallest first.

    An efficiency has an interval from the 5th to the 95th percentile of 2000 resamples (bootstrap)
    of the rates of both runs. Raises RunFolderError where they cannot be compared.
    """
    found = sorted(map(_run, folders), key=lambda each: (each.workers, each.batch))
    if len({each.workers for each in found}) < 2:
        counts = ", ".join(str(each.workers) for each in found) or "none"
        raise RunFolderError(
            f"scaling needs runs with different numbers of workers; these have {counts}"
        )
    results = [read_result(each.folder) for each in found]
    for name in _SAME:
        values = [str(each.get(name)) for each in results]
        if len(set(values)) > 1:
            raise RunFolderError(
                f"runs of different {name}s: {', '.join(dict.fromkeys(values))}; expected runs "
                "that differ in workers, nodes and batches alone"
            )
    base, draw = found[0], np.random.default_rng(0)
    return {
        "schema": SCHEMA,
        "version": [1, 0],
        "scaling": _kind(found),
        **{name: results[0].get(name) for name in _SAME},
        "rows": [_row(each, base, draw) for each in found],
    }


def _run(folder: Path) -> ScaledRun:
    result = read_result(folder)
    records = [each for each in read_metrics(folder / "metrics-0.jsonl") if each["kind"] == "train"]
    rates = np.array([each["images_per_second"] for each in records[1:]], np.float64)
    return ScaledRun(
        folder,
        int(result.get("nodes", 1)),
        int(result["workers"]),
        int(result.get("batch", 0)) * int(result.get("iter_size", 1)),
        float(result["images_per_second"]),
        rates,
        result.get("communication_share"),
        result.get("test_accuracy"),
        result.get("train_seconds"),
    )


def _kind(runs: Sequence[ScaledRun]) -> Kind:
    if len({each.batch / each.workers for each in runs}) == 1:
        return "weak"
    return "strong" if len({each.batch for each in runs}) == 1 else "mixed"


def _row(run: ScaledRun, base: ScaledRun, draw: np.random.Generator) -> dict[str, Any]:
    low, high = (None, None) if run is base else _interval(run, base, draw)
    return {
        "run": run.folder.name,
        "nodes": run.nodes,
        "workers": run.workers,
        "batch": run.batch,
        "images_per_second": run.images_per_second,
        "efficiency": run.per_worker / base.per_worker,
        "lowest_efficiency": low,
        "highest_efficiency": high,
        "communication_share": run.communication_share,
        "test_accuracy": run.test_accuracy,
        "train_seconds": run.train_seconds,
    }


def _interval(
    run: ScaledRun, base: ScaledRun, draw: np.random.Generator
) -> tuple[float | None, float | None]:
    if min(run.rates.size, base.rates.size) < _LEAST_RATES:
        return None, None
    means = [
        draw.choice(each.rates, (_RESAMPLES, each.rates.size)).mean(axis=1) / each.workers
        for each in (run, base)
    ]
    low, high = np.percentile(means[0] / means[1], _INTERVAL)
    return float(low), float(high)


def told(report: Mapping[str, Any]) -> str:
    """The report as a table."""
    heads = (
        *("run", "nodes", "workers", "batch", "images/s", "efficiency %", "5 %", "95 %"),
        *("communication %", "accuracy %", "seconds"),
    )
    rows = [
        (
            row["run"],
            str(row["nodes"]),
            str(row["workers"]),
            str(row["batch"]),
            f"{row['images_per_second']:,.1f}",
            *(
                _number(row[name], 100)
                for name in ("efficiency", "lowest_efficiency", "highest_efficiency")
            ),
            _number(row["communication_share"], 100),
            _number(row["test_accuracy"], 100),
            _number(row["train_seconds"], 1),
        )
        for row in report["rows"]
    ]
    return f"{report['scaling']} scaling\n{table(heads, rows, right=range(1, len(heads)))}"


def _number(value: float | None, factor: float) -> str:
    return "" if value is None else f"{factor * value:.1f}"


def draw_scaling(report: Mapping[str, Any], path: Path) -> None:
    """Draw efficiency with its intervals, and speed beside the ideal, over the workers.

    Raises `RunFolderError` when the picture cannot be written.
    """
    rows = report["rows"]
    workers = [row["workers"] for row in rows]
    figure = empty_figure(8.0, 3.6)
    left, right = figure.subplots(1, 2)
    shares = [100 * row["efficiency"] for row in rows]
    spread = [list(each) for each in zip(*map(_below_and_above, rows), strict=True)]
    left.errorbar(workers, shares, yerr=spread, color=BLUE, marker="o", capsize=3)
    left.axhline(100, color="grey", linewidth=0.8)
    left.set_ylim(0, max(110, 1.05 * max(shares)))
    left.set_ylabel("efficiency, %")
    speeds = [row["images_per_second"] for row in rows]
    ideal = [speeds[0] / workers[0] * each for each in workers]
    right.plot(workers, ideal, color="grey", linestyle="--", label="ideal")
    right.plot(workers, speeds, color=ORANGE, marker="o", label="measured")
    right.set_ylabel("images/s")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(workers, [str(each) for each in workers])
        axes.set_xlabel("workers")
        finish(axes)
    figure.suptitle(f"{report['network']} by {report['method']}, {report['scaling']} scaling")
    save(figure, path)


def _below_and_above(row: Mapping[str, Any]) -> Iterator[float]:
    for name, sign in (("lowest_efficiency", 1), ("highest_efficiency", -1)):
        edge = row[name]
        yield 0.0 if edge is None else max(0.0, 100 * sign * (row["efficiency"] - edge))
