"""`knltrain profile`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from knltrain.cli.options import (
    CONFIG,
    RUN_FOLDER,
    as_json_option,
    overrides_option,
    refuse_own_keys,
    workers_option,
)
from knltrain.cli.saying import say
from knltrain.cluster.variables import import_numpy_with_one_thread

if TYPE_CHECKING:
    from knltrain.profile.comparison import Side

_OWN_KEYS: Final = dict.fromkeys(
    ("train.steps", "train.epochs", "train.profile_steps", "train.trace_steps"),
    "--steps, which says how long to train",
)
_OF_CONFIG: Final = ("steps", "workers", "overrides", "name")
_STEPS: Final = 20


@click.command()
@click.argument("config_or_run", type=CONFIG)
@click.option(
    "--steps", type=click.IntRange(1, 1000), help=f"Steps that are profiled; default: {_STEPS}."
)
@workers_option
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
def profile(config_or_run: Path, rows: int, other: Path | None, as_json: bool, **of: Any) -> None:
    """Train some steps and show where their time goes, by stage, direction and worker.

    CONFIG is trained without evaluations and checkpoints. Of the folder of a run that was profiled
    the profile is shown again. profile.json, profile.csv, roofline.png and layers.png are in the
    run's folder.
    """
    from knltrain.profile.comparison import compared as side_by_side
    from knltrain.profile.comparison import side_of
    from knltrain.profile.reading import read_profile, whole

    if other is not None and as_json:
        raise click.UsageError("--compare shows tables: leave --json out")
    compared = None
    if other is not None:  # before anything is trained
        document = read_profile(other)
        with whole(other):
            compared = side_of(document)
    if config_or_run.is_dir():
        if given := [name for name in _OF_CONFIG if of[name]]:
            option = "--" + given[0].replace("overrides", "set")
            raise click.UsageError(f"{option} is for a CONFIG, not for the folder of a run")
        run_folder = config_or_run
    else:
        run_folder = _profiled(config_or_run, compared, as_json, **of)
    from knltrain.cluster.task import this_task

    task = this_task()
    if task is not None and task.rank != 0:
        return
    document = read_profile(run_folder)
    with whole(run_folder) if run_folder is config_or_run else nullcontext():
        written = list(_write_others(document, run_folder))
        _tell(document, rows or None, as_json)
    if compared is not None:
        with whole(run_folder):
            here = side_of(document)
        say("\n" + side_by_side(here, compared, rows or None))
    if not as_json:
        say(f"\n{', '.join(str(run_folder / name) for name in written)}")


def _profiled(
    config: Path,
    compared: Side | None,
    as_json: bool,
    steps: int | None,
    workers: str | None,
    overrides: Sequence[str],
    name: str | None,
) -> Path:
    """Train, and return the run's folder; beside JSON all that training says is no result."""
    options = {"workers": workers, "name": name}
    given = {key: f"--{key} alone" for key, value in options.items() if value is not None}
    refuse_own_keys(overrides, {**_OWN_KEYS, **given})
    from knltrain.launch.signals import run_begins

    with run_begins():
        import_numpy_with_one_thread()
        from knltrain.config import load_config
        from knltrain.errors import ConfigError
        from knltrain.launch import training
        from knltrain.profile.window import WARM_UP_STEPS

        window = steps or _STEPS
        own = [
            f"train.steps={window + WARM_UP_STEPS}",
            f"train.profile_steps={window}",
            *("train.trace_steps=0", "train.first_step=0"),
            *("evaluation.at_end=false", "evaluation.every_epochs=0", "evaluation.every_steps="),
            *("checkpoint.at_end=false", "checkpoint.every_epochs=0", "checkpoint.every_steps="),
            "checkpoint.every_minutes=0",
        ]
        if workers is not None:
            own.append(f"workers={workers or json.dumps(workers)}")
        own.append(f"name={json.dumps(name or f'{config.stem}-profile')}")
        chosen = load_config(config, (*own, *overrides))
        if compared is not None and chosen.network.module is None:
            before = compared.network
            if before != chosen.network.name:
                raise ConfigError(
                    f"--compare: a profile of {before}, and {chosen.network.name} is to be trained:"
                    " expected two of one network"
                )
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            return training.train(chosen)


def _tell(document: dict[str, Any], rows: int | None, as_json: bool) -> None:
    from knltrain.profile.table import told

    say(json.dumps(document, indent=2) if as_json else told(document, rows))


def _write_others(document: dict[str, Any], run_folder: Path) -> Iterator[str]:
    """Write the CSV and the pictures, as far as that can be done; yield the names of all files."""
    from knltrain.errors import RunFolderError
    from knltrain.files.durable import reason_of, write_whole
    from knltrain.profile.document import PROFILE
    from knltrain.profile.layers import LAYERS, draw_layers
    from knltrain.profile.roofline import ROOFLINE, draw_roofline
    from knltrain.profile.rows import CSV, as_csv

    yield PROFILE
    try:
        write_whole(run_folder / CSV, as_csv(document))
        yield CSV
    except OSError as error:
        say(f"missing: {run_folder / CSV}: {reason_of(error)}", error=True)
    if not document["stages"]:
        return
    for name, draw in ((ROOFLINE, draw_roofline), (LAYERS, draw_layers)):
        try:
            draw(document, run_folder / name)
            yield name
        except RunFolderError as error:
            say(f"missing: {error}", error=True)
