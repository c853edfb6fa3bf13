"""`knltrain evaluate`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from knltrain.cli.options import (
    RUN_FOLDER,
    PathFromHome,
    as_json_option,
    other_data_option,
    overrides_option,
)
from knltrain.cli.saying import say
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.evaluation import ClassCounts
    from knltrain.launch.evaluate_run import CheckpointEvaluation, Half

MOST_ROWS: Final = 20
"""Classes up to which each has its line."""


@click.command()
@click.argument("run_folder", type=RUN_FOLDER)
@overrides_option
@click.option(
    "--data",
    multiple=True,
    metavar="KEY=VALUE",
    help="Take another data set: keys of [data], such as name=folder and root=/data/flowers.",
)
@click.option(
    "--half",
    type=click.Choice(["train", "test"]),
    default="test",
    help="Half of the data set to measure on.",
)
@other_data_option
@click.option(
    "--picture",
    type=PathFromHome(dir_okay=False, writable=True, path_type=Path),
    help="Draw the confusion matrix into this file: .png.",
)
@as_json_option
def evaluate(
    run_folder: Path,
    overrides: tuple[str, ...],
    data: tuple[str, ...],
    half: Half,
    accepts_other_data: bool,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Measure the newest checkpoint's model on the run's test images, also by class.

    RUN_FOLDER may be a checkpoint in it. Only data.name and data.root may be --set, for data that
    have moved, and evaluation.crops. Pictures of another data set (--data) are prepared as the
    model takes them, and classes are matched by their names.
    """
    if picture is not None and picture.suffix != ".png":
        raise ConfigError(f"--picture {picture}: expected a name that ends in .png")
    from knltrain.launch.evaluate_run import evaluate_run

    evaluated = evaluate_run(run_folder, overrides, accepts_other_data, data=data, half=half)
    for note in evaluated.notes:
        click.echo(f"note: {note}", err=True)
    _tell(evaluated, as_json)
    if picture is not None:  # last, as what was found is known whether or not it can be drawn
        _draw(picture, evaluated, run_folder)


def _tell(evaluated: CheckpointEvaluation, as_json: bool) -> None:
    found, classes = evaluated.found, evaluated.found.classes
    if as_json:
        fields: dict[str, object] = {
            "checkpoint": str(evaluated.checkpoint),
            "step": evaluated.step,
            "accuracy": found.accuracy,
            "loss": found.loss,
            "images": found.images,
        }
        if classes is not None:
            fields["class_names"] = evaluated.class_names
            fields["top5_accuracy"] = classes.top5_accuracy
            fields["class_accuracy"] = classes.accuracies
            fields["confusion"] = classes.confusion
        say(json.dumps(fields))
        return
    half = "training" if evaluated.half == "train" else "test"
    say(
        f"{evaluated.checkpoint}: accuracy {found.accuracy:.2%} of {found.images:,} {half} "
        f"images, loss {found.loss:.4f}"
    )
    if classes is not None:
        for line in _by_class(classes, evaluated.class_names):
            say(line)


def _by_class(classes: ClassCounts, names: tuple[str, ...]) -> Iterator[str]:
    if classes.top5_accuracy is not None:
        yield f"top-5 accuracy {classes.top5_accuracy:.2%}"
    if len(classes.images) > MOST_ROWS:
        return
    names = names or tuple(map(str, range(len(classes.images))))
    width = max(len("class"), *map(len, names))
    yield f"{'class':{width}}  images  accuracy"
    for name, images, accuracy in zip(names, classes.images, classes.accuracies, strict=True):
        told = "-" if accuracy is None else f"{accuracy:.2%}"
        yield f"{name:>{width}}  {images:6,}  {told:>8}"


def _draw(picture: Path, evaluated: CheckpointEvaluation, run_folder: Path) -> None:
    from knltrain.confusion import Confusion, draw_counts
    from knltrain.evaluation import MOST_CONFUSED

    classes = evaluated.found.classes
    if classes is None or classes.confusion is None:
        raise ConfigError(
            f"--picture {picture}: there is no confusion matrix, expected up to {MOST_CONFUSED} "
            "classes, and one for each image; leave --picture out"
        )
    found = Confusion(classes.confusion, evaluated.class_names)
    draw_counts(found, picture, run_folder.resolve().name)
