"""`knltrain evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from knltrain.cli.options import RUN_FOLDER, as_json_option, other_data_option, overrides_option
from knltrain.cli.saying import say


@click.command()
@click.argument("run_folder", type=RUN_FOLDER)
@overrides_option
@other_data_option
@as_json_option
def evaluate(
    run_folder: Path, overrides: tuple[str, ...], accepts_other_data: bool, as_json: bool
) -> None:
    """Measure the newest checkpoint's model on the run's test images.

    Only data.name and data.root may be --set, for data that have moved.
    """
    from knltrain.launch.evaluate_run import evaluate_run

    evaluated = evaluate_run(run_folder, overrides, accepts_other_data)
    for note in evaluated.notes:
        click.echo(f"note: {note}", err=True)
    found = evaluated.found
    if as_json:
        fields = {
            "checkpoint": str(evaluated.checkpoint),
            "step": evaluated.step,
            "accuracy": found.accuracy,
            "loss": found.loss,
            "images": found.images,
        }
        say(json.dumps(fields))
        return
    say(
        f"{evaluated.checkpoint}: accuracy {found.accuracy:.2%} of {found.images:,} test images, "
        f"loss {found.loss:.4f}"
    )
