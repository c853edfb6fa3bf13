"""What a run folder says, for people: the learning curves as a picture, the figures as lines.

Reads nothing but the run folder, so it works long after the run and on another computer.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knltrain.clocks import COMMUNICATION, SHOWN_DATA_SHARE
from knltrain.confusion import (
    CONFUSION,
    CONFUSION_PICTURE,
    confusion_from_csv,
    draw_counts,
)
from knltrain.errors import RunFolderError
from knltrain.metrics import read_metrics
from knltrain.picture import BLUE, ORANGE, empty_figure, finish, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = "curves.png"
_MARGINS = {"left": 0.12, "right": 0.97, "bottom": 0.08, "top": 0.87, "hspace": 0.1}

_NUMBER = (int, float)
_TOLD: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "workers": (int,),
    "images_per_second": _NUMBER,
    "exchange_share": _NUMBER,
    "test_accuracy": (float, type(None)),
}
_TOLD_OF_TESTS: dict[str, tuple[type, ...]] = {"test_images": (int,), "test_loss": _NUMBER}
_BY_CLASS: dict[str, tuple[type, ...]] = {
    "test_top5_accuracy": (float, type(None)),
    "test_class_accuracy": (list, type(None)),
    "class_names": (list, type(None)),
}
"""Older runs have no such figures."""
_PARTS_OF_A_STEP = {
    "computing": ("batch", "gradient", "update"),
    "exchange, exposed": (*COMMUNICATION, "center_update"),
    "other": ("rest",),
}
_DRAWN = {"train": ("step", "loss", "epoch"), "test": ("step", "accuracy", "loss")}
"""What a summary and a picture are made of."""


def draw_curves(run_folder: Path) -> Path:
    """Draw training loss and test accuracy over the steps into `curves.png`; returns its path.

    Raises `RunFolderError` when the folder has no metrics or none that could be drawn, or when the
    picture cannot be written.
    """
    figure = empty_figure(8.0, 6.0, _MARGINS)
    above, below = figure.subplots(2, 1, sharex=True)
    draw_training(run_folder, above, below)
    figure.suptitle(run_folder.resolve().name, parse_math=False)
    path = run_folder / CURVES
    save(figure, path)
    return path


def draw_confusion(run_folder: Path) -> Path | None:
    """Draw the confusion matrix of the run's end into `confusion.png`; returns its path.

    Returns None where the run has none, as with many classes. Raises `RunFolderError` when it is
    damaged, or the picture cannot be written.
    """
    table = run_folder / CONFUSION
    if not table.exists():
        return None
    path = run_folder / CONFUSION_PICTURE
    draw_counts(confusion_from_csv(table), path, run_folder.resolve().name)
    return path


def remove_pictures(run_folder: Path) -> None:
    """Remove what was drawn when a run ended before: it does not show the steps since.

    What cannot be removed stays.
    """
    for name in (CURVES, CONFUSION_PICTURE):
        with suppress(OSError):
            (run_folder / name).unlink()


def draw_training(run_folder: Path, above: Axes, below: Axes) -> None:
    """Draw training loss and test accuracy over the steps onto two axes.

    Raises `RunFolderError` when the folder has no metrics or none that could be drawn.
    """
    training, tests = _records(run_folder)
    _draw_loss(above, training)
    _draw_accuracy(below, tests)
    steps_per_epoch = training[0][0]["step"] / training[0][0]["epoch"]
    epochs = above.secondary_xaxis(
        "top",
        functions=(lambda step: step / steps_per_epoch, lambda epoch: epoch * steps_per_epoch),
    )
    epochs.set_xlabel("epoch")
    below.set_xlabel("step")


def summary(run_folder: Path) -> str:
    """Final lines of a run: accuracy of its model, speed, time in exchanges, where it all lies.

    Raises `RunFolderError` when the run has no result, that is, has not come to its end.
    """
    result = read_result(run_folder)
    lines = {
        f"test accuracy of the {model_of(result)}": _accuracy(result),
        **_accuracies_besides(result),
        "speed": f"{result['images_per_second']:,.0f} images/s with {_workers(result)}",
        "time in exchange": f"{100 * result['exchange_share']:.1f} %",
        **_waiting_for_data(result),
        "run folder": str(run_folder),
    }
    for name, picture in (("curves", CURVES), ("confusion", CONFUSION_PICTURE)):
        if (run_folder / picture).exists():
            lines[name] = str(run_folder / picture)
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def _waiting_for_data(result: dict[str, Any]) -> dict[str, str]:
    """The share of time without a batch, if that is worth a line."""
    share = result.get("data_share", 0.0)
    told = f"{100 * share:.1f} %; placement.data_cores has batches made ahead"
    return {"waiting for data": told} if share >= SHOWN_DATA_SHARE else {}


def read_result(run_folder: str | Path) -> dict[str, Any]:
    """What a run has written into `result.json`: accuracy, loss, speed, time in exchanges.

    Raises `RunFolderError` when the run has no result, that is, has not come to its end.
    """
    path = Path(run_folder) / "result.json"
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{path}: no such file: the run has not come to its end; resume it, or look at "
            f"{run_folder}/metrics-0.jsonl for how far it got"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error
    if not isinstance(result, dict):
        raise RunFolderError(f"{path}: a {type(result).__name__}: expected the result of a run")
    tested = isinstance(result.get("test_accuracy"), float)
    by_class = {name: kinds for name, kinds in _BY_CLASS.items() if name in result}
    for name, kinds in {**_TOLD, **by_class, **(_TOLD_OF_TESTS if tested else {})}.items():
        if name not in result or type(result[name]) not in kinds:
            raise RunFolderError(
                f"{path}: {name} is {str(result.get(name))[:60]!r}: expected what a run writes"
            )
    return result


def seconds_of_a_step(run_folder: Path) -> dict[str, float]:
    """Mean seconds of a worker's step: computing; exchange that computing waits for; other.

    Raises `RunFolderError` when the run has no result, or one without its costs.
    """
    result = read_result(run_folder)
    try:
        costs, steps = result["cost_seconds"], result["worker_steps"]
        mean_steps = sum(steps) / len(steps)
        return {
            part: sum(costs[name] for name in names) / mean_steps
            for part, names in _PARTS_OF_A_STEP.items()
        }
    except (TypeError, KeyError, ZeroDivisionError) as error:
        raise RunFolderError(
            f"{run_folder}/result.json: cost_seconds or worker_steps is not what a run writes"
        ) from error


def _records(run_folder: Path) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Training records of every worker, and the test records of rank 0."""
    paths = sorted(run_folder.glob("metrics-*.jsonl"), key=_rank)
    by_worker = [read_metrics(path) for path in paths]
    for path, records in zip(paths, by_worker, strict=True):
        _check_records(path, records)
    training = [[each for each in records if each["kind"] == "train"] for records in by_worker]
    training = [records for records in training if records]
    if not training:
        raise RunFolderError(
            f"{run_folder}: no training records in metrics-*.jsonl: expected the folder of a run "
            "that has done at least one step"
        )
    return training, [each for each in by_worker[0] if each["kind"] == "test"]


def _rank(metrics: Path) -> int:
    number = metrics.stem.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else -1


def _check_records(path: Path, records: list[dict[str, Any]]) -> None:
    """Refuse records that no run writes, before they are drawn."""
    for record in records:
        names = _DRAWN.get(str(record.get("kind")))
        if names is None or not all(_is_number(record.get(name)) for name in names):
            raise RunFolderError(
                f"{path}: expected records of steps and losses, found {str(record)[:60]}: damaged"
            )


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _draw_loss(axes: Axes, training: list[list[dict[str, Any]]]) -> None:
    from matplotlib.ticker import LogFormatter

    class PlainNumbers(LogFormatter):
        """0.2 where matplotlib typesets a power of ten, which takes a third of the time here."""

        def __call__(self, value: float, place: int | None = None) -> str:
            return f"{value:g}" if super().__call__(value, place) else ""

    several = len(training) > 1
    told = [each for each in training[0] if _is_number(each.get("run_loss"))]  # by newer runs
    for rank, records in enumerate(training):
        axes.plot(
            [each["step"] for each in records],
            [each["loss"] for each in records],
            color=BLUE,
            alpha=max(0.25, 1 / len(training)),
            linewidth=1.0 if several else 1.5,
            label=f"each of {len(training)} workers" if several and rank == 0 else None,
        )
    if several and told:
        axes.plot(
            [each["step"] for each in told],
            [each["run_loss"] for each in told],
            color=BLUE,
            linewidth=1.5,
            label="all workers",
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(PlainNumbers())
    axes.yaxis.set_minor_formatter(PlainNumbers(minor_thresholds=(2, 0.4)))
    _finish(axes, "training loss\n(cross-entropy, nats)")


def _draw_accuracy(axes: Axes, tests: list[dict[str, Any]]) -> None:
    axes.plot(
        [each["step"] for each in tests],
        [100 * each["accuracy"] for each in tests],
        color=ORANGE,
        linewidth=1.5,
        marker="o",
        markersize=4,
    )
    if tests:
        last = tests[-1]
        axes.annotate(
            f"{100 * last['accuracy']:.2f} %",
            (last["step"], 100 * last["accuracy"]),
            xytext=(-6, -14),
            textcoords="offset points",
            horizontalalignment="right",
            color=ORANGE,
        )
    _finish(axes, "test accuracy (%)")


def _finish(axes: Axes, label: str) -> None:
    axes.set_ylabel(label)
    finish(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)


def model_of(result: dict[str, Any]) -> str:
    """What a run's model is called: the center, where its method has one that workers pull on."""
    return "center" if result["method"] == "sync_easgd" else "model"


def _accuracy(result: dict[str, Any]) -> str:
    if result["test_accuracy"] is None:
        return "not evaluated"
    return (
        f"{100 * result['test_accuracy']:.2f} % of {result['test_images']:,} images "
        f"(loss {result['test_loss']:.4f})"
    )


def _accuracies_besides(result: dict[str, Any]) -> dict[str, str]:
    """The line of the top-5 accuracy, and that of the class that is found least often."""
    found: dict[str, str] = {}
    top5, by_class = result.get("test_top5_accuracy"), result.get("test_class_accuracy")
    if isinstance(top5, float):
        found["top-5 accuracy"] = f"{100 * top5:.2f} %"
    known = [each for each in by_class or () if isinstance(each, float)]
    if by_class and known:
        least, names = min(known), result.get("class_names") or ()
        number = by_class.index(least)
        name = names[number] if len(names) == len(by_class) else number
        found["least accurate class"] = f"{name}, {100 * least:.2f} %"
    return found


def _workers(result: dict[str, Any]) -> str:
    return "1 worker" if result["workers"] == 1 else f"{result['workers']} workers"
