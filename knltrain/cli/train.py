"""`knltrain train`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from knltrain.cli.options import (
    CONFIG,
    RUN_FOLDER,
    other_data_option,
    overrides_option,
    workers_option,
)
from knltrain.cli.saying import say
from knltrain.cluster.variables import import_numpy_with_one_thread


@click.command()
@click.argument("config", type=CONFIG, required=False)
@workers_option
@overrides_option
@click.option("--name", help="Name of the run's folder.")
@click.option("--resume", "run_folder", type=RUN_FOLDER, help="Go on with the run of this folder.")
@other_data_option
@click.option(
    "--no-pictures", is_flag=True, help="Draw no curves and no confusion matrix at the end."
)
def train(
    config: Path | None,
    workers: str | None,
    overrides: tuple[str, ...],
    name: str | None,
    run_folder: Path | None,
    accepts_other_data: bool,
    no_pictures: bool,
) -> None:
    """Train as CONFIG (a TOML file) says, or go on with a run that was stopped.

    With --resume only some keys may be --set, such as train.epochs, train.steps, nodes, workers,
    data.root, backend.device, balance.* and preemption.*; another one is refused with all of them.
    """
    if (config is None) == (run_folder is None):
        raise click.UsageError("expected either CONFIG or --resume RUN_FOLDER")
    if run_folder is not None and (workers is not None or name is not None):
        raise click.UsageError("--resume goes on with the same --workers and --name")
    if config is not None and accepts_other_data:
        raise click.UsageError("--accept-other-data is for --resume: a new run takes any data")
    from knltrain.launch.signals import run_begins

    with run_begins():  # first of all: what is imported now takes its time
        import_numpy_with_one_thread()
        from knltrain.config import load_config
        from knltrain.launch import training

        if config is not None:
            chosen = load_config(config, (*overrides, *_own_overrides(workers, name)))
            _carry_out(partial(training.train, chosen), not no_pictures)
        else:
            assert run_folder is not None
            resumed = partial(training.resume, run_folder, overrides, accepts_other_data)
            _carry_out(resumed, not no_pictures)


def _own_overrides(workers: str | None, name: str | None) -> list[str]:
    """The options as --set overrides; an empty value is an error, while KEY= removes the key."""
    own = [] if workers is None else [f"workers={workers or json.dumps(workers)}"]
    return own + ([] if name is None else [f"name={json.dumps(name)}"])


def _carry_out(run: Callable[[], Path], has_pictures: bool) -> None:
    """Carry out a run, which returns its folder, and report its result."""
    from knltrain.errors import IncompleteRun, RunFolderError
    from knltrain.launch.signals import run_is_over

    try:
        run_folder = run()
    except IncompleteRun as error:
        # The outcome may say no more than the error itself.
        with run_is_over(), suppress(RunFolderError):
            _tell_outcome(error.run_folder, has_pictures)
        raise
    with run_is_over():
        _tell_outcome(run_folder, has_pictures)


def _tell_outcome(run_folder: Path, has_pictures: bool) -> None:
    """Draw the curves, if wanted, and print the figures, as far as they could be written."""
    from knltrain.cluster.task import this_task
    from knltrain.errors import RunFolderError
    from knltrain.report import draw_confusion, draw_curves, remove_pictures, summary

    task = this_task()
    if task is not None and task.rank != 0:
        return
    for finish in (draw_curves, draw_confusion) if has_pictures else (remove_pictures,):
        try:
            finish(run_folder)
        except RunFolderError as error:
            say(f"missing: {error}")
    say(summary(run_folder))
