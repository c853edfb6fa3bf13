"""`knltrain bench cnn`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import (
    check_files,
    listed,
    numbers,
    picture_option,
    report_option,
    show,
)
from knltrain.cli.options import PathFromHome
from knltrain.cli.saying import say


@click.command()
@click.option(
    "--networks", default="alexnet,vgg-16,googlenet,resnet-50", show_default=True, help="Networks."
)
@click.option("--workers", default="1,2", show_default=True, help="Numbers of them on this node.")
@click.option("--hosts", default="", help="Numbers of emulated hosts, one worker on each.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Of each worker."
)
@click.option("--steps", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--method", default="layerwise_sgd", show_default=True, help="Of several workers.")
@click.option(
    "--profiles",
    type=PathFromHome(exists=True, file_okay=False, path_type=Path),
    help="Folder for all profiles (docs/profile.md).",
)
@report_option
@picture_option("operations per byte by kind of operation, networks side by side")
def cnn(
    networks: str,
    workers: str,
    hosts: str,
    batch: int,
    steps: int,
    method: str,
    profiles: Path | None,
    report_file: Path | None,
    picture: Path | None,
) -> None:
    """Profile whole networks while they train, on one worker, on several and on hosts."""
    from knltrain.bench.cnn.benchmark import run_cnn_benchmark
    from knltrain.bench.cnn.picture import draw_intensities
    from knltrain.bench.cnn.table import format_table

    check_files(report_file, picture)
    report = run_cnn_benchmark(
        listed("--networks", networks),
        numbers("--workers", workers),
        numbers("--hosts", hosts),
        batch=batch,
        steps=steps,
        method=method,
        profiles=profiles,
        tell=say,
    )
    show(report, format_table, report_file, picture, draw_intensities)
