"""`knltrain bench scaling`."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import click

from knltrain.cli.bench.report import (
    check_files,
    numbers,
    picture_option,
    report_option,
    rounds_option,
    show,
    workers_per_core_option,
)
from knltrain.cli.options import (
    ABOVE_ZERO,
    CONFIG,
    PathFromHome,
    overrides_option,
    refuse_own_keys,
)
from knltrain.cli.saying import say

_OWN_KEYS: Final = {
    "workers": "--workers, numbers of them on each node",
    "nodes": "--nodes, numbers of emulated hosts",
    "train.batch": "--batches, images of a step",
    "runs_folder": "--runs, a folder for the folders of all runs",
    "name": "none: each run is named by its workers and batch",
}


@click.command()
@click.argument("config", required=False, type=CONFIG)
@click.option("--nodes", default="1", show_default=True, help="Numbers of emulated hosts.")
@click.option("--workers", default="1,2", show_default=True, help="Numbers of them on each node.")
@click.option(
    "--batches",
    default="64",
    show_default=True,
    help="Images of a step: of each worker in weak scaling, of all in strong.",
)
@click.option(
    "--scaling",
    type=click.Choice(["weak", "strong"]),
    default="weak",
    show_default=True,
    help="Whether the batch of a worker or that of all stays.",
)
@rounds_option(3)
@click.option(
    "--gbits",
    type=ABOVE_ZERO,
    default=10.0,
    show_default=True,
    help="Gbit/s of the links between nodes.",
)
@workers_per_core_option
@overrides_option
@click.option(
    "--runs",
    type=PathFromHome(exists=True, file_okay=False, path_type=Path),
    help="Folder for the folders of all runs.",
)
@report_option
@picture_option("efficiency, speed and accuracy")
def scaling(
    config: Path | None,
    nodes: str,
    workers: str,
    batches: str,
    scaling: Literal["weak", "strong"],
    rounds: int,
    gbits: float,
    workers_per_core: int,
    overrides: tuple[str, ...],
    runs: Path | None,
    report_file: Path | None,
    picture: Path | None,
) -> None:
    """Train CONFIG by more and more workers, and compare their speed with that of one.

    Without CONFIG: LeNet on the digits.
    """
    from knltrain.bench.scaling.benchmark import run_scaling_benchmark
    from knltrain.scaling import draw_scaling, told

    check_files(report_file, picture)
    refuse_own_keys(overrides, _OWN_KEYS)
    report = run_scaling_benchmark(
        config,
        nodes=numbers("--nodes", nodes),
        workers=numbers("--workers", workers),
        batches=numbers("--batches", batches),
        scaling=scaling,
        rounds=rounds,
        gbits=gbits,
        workers_per_core=workers_per_core,
        overrides=overrides,
        runs=runs,
        tell=say,
    )
    show(report, told, report_file, picture, draw_scaling)
