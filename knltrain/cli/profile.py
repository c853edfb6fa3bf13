"""`knltrain profile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from knltrain.cli.options import CONFIG, RUN_FOLDER, as_json_option, overrides_option
from knltrain.cli.saying import say


@click.command()
@click.argument("config_or_run", type=CONFIG)
@click.option("--steps", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option(
    "--workers",
    metavar="N|auto|UNIT",
    help="Number of workers, or one for each core, tile, l3, numa (node) or package.",
)
@overrides_option
@click.option("--name", help="Name of the run's folder.")
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    help="Stages in the table, the longest ones; 0: all.",
)
@click.option(
    "--compare", "other", type=RUN_FOLDER, help="The folder of another profiled run, side by side."
)
@as_json_option
def profile(
    config_or_run: Path,
    steps: int,
    workers: str | None,
    overrides: tuple[str, ...],
    name: str | None,
    rows: int,
    other: Path | None,
    as_json: bool,
) -> None:
    """Train some steps and show where their time goes, by stage, direction and worker.

    CONFIG is trained without evaluations and checkpoints. Of the folder of a run that was profiled
    the profile is shown again. profile.json, profile.csv and roofline.png are in the run's folder.
    """
    if other is not None:
        from knltrain.profile.reading import read_profile

        read_profile(other)  # before anything is trained
    if config_or_run.is_dir():
        run_folder = config_or_run
    else:
        run_folder = _profiled(config_or_run, steps, workers, overrides, name)
    from knltrain.cluster.task import this_task
    from knltrain.profile.reading import read_profile
    from knltrain.profile.table import told

    task = this_task()
    if task is not None and task.rank != 0:
        return
    document = read_profile(run_folder)
    _write_others(document, run_folder)
    say(json.dumps(document, indent=2) if as_json else told(document, rows or None))
    if other is not None:
        from knltrain.profile.comparison import compared

        say("\n" + compared(document, read_profile(other), rows or None))
    if not as_json:
        say(f"\n{run_folder}/profile.json, profile.csv, roofline.png")


def _profiled(
    config: Path, steps: int, workers: str | None, overrides: tuple[str, ...], name: str | None
) -> Path:
    from knltrain.launch.signals import run_begins

    with run_begins():
        from knltrain.config import load_config
        from knltrain.launch import training
        from knltrain.profile.window import WARM_UP_STEPS

        own = [
            f"train.steps={steps + WARM_UP_STEPS}",
            f"train.profile_steps={steps}",
            "train.trace_steps=0",
            *("evaluation.at_end=false", "evaluation.every_epochs=0", "evaluation.every_steps="),
            *("checkpoint.at_end=false", "checkpoint.every_epochs=0", "checkpoint.every_steps="),
            "checkpoint.every_minutes=0",
        ]
        if workers is not None:
            own.append(f"workers={workers or json.dumps(workers)}")
        own.append(f"name={json.dumps(name or f'{config.stem}-profile')}")
        return training.train(load_config(config, (*own, *overrides)))


def _write_others(document: dict[str, Any], run_folder: Path) -> None:
    """Write the CSV and the picture, as far as that can be done."""
    from knltrain.errors import RunFolderError
    from knltrain.files.durable import reason_of, write_whole
    from knltrain.profile.roofline import ROOFLINE, draw_roofline
    from knltrain.profile.rows import CSV, as_csv

    try:
        write_whole(run_folder / CSV, as_csv(document))
    except OSError as error:
        say(f"missing: {run_folder / CSV}: {reason_of(error)}", error=True)
    if document["stages"]:
        try:
            draw_roofline(document, run_folder / ROOFLINE)
        except RunFolderError as error:
            say(f"missing: {error}", error=True)
