"""`knltrain report-scaling`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, report_option, show
from knltrain.cli.options import RUN_FOLDER, PathFromHome


@click.command()
@click.argument("run_folders", nargs=-1, required=True, type=RUN_FOLDER)
@report_option
@click.option(
    "--picture",
    type=PathFromHome(dir_okay=False, writable=True, path_type=Path),
    help="Draw efficiency and speed, as PNG.",
)
def report_scaling(
    run_folders: tuple[Path, ...], report_file: Path | None, picture: Path | None
) -> None:
    """Compare runs with different numbers of workers: efficiency with its interval, and speed."""
    from knltrain.scaling import draw_scaling, scaling_of, told

    check_files(report_file, picture)
    report = scaling_of(run_folders)
    show(report, told, report_file, picture, draw_scaling)
