"""`knltrain evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from knltrain.cli.options import RUN_FOLDER, as_json_option
from knltrain.cli.saying import say


@click.command()
@click.argument("run_folder", type=RUN_FOLDER)
@as_json_option
def evaluate(run_folder: Path, as_json: bool) -> None:
    """Measure the newest checkpoint's model on the run's test images."""
    from knltrain.launch.evaluate_run import evaluate_run

    evaluated = evaluate_run(run_folder)
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
