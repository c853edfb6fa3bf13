"""`knltrain bench elastic`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, report_option, rounds_option, show


@click.command()
@click.option("--network", default="resnet-18", show_default=True, help="Trained by PyTorch.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=16, show_default=True, help="Of each worker."
)
@click.option("--method", default="sync_easgd3", show_default=True)
@click.option(
    "--period", type=click.IntRange(min=1), default=1, show_default=True, help="Steps per exchange."
)
@click.option("--workers", type=int, default=2, show_default=True)
@rounds_option(7)
@report_option
def elastic(
    network: str,
    batch: int,
    method: str,
    period: int,
    workers: int,
    rounds: int,
    report_file: Path | None,
) -> None:
    """Time a loop of PyTorch by itself and with knltrain.elastic."""
    from knltrain.bench.elastic.benchmark import run_elastic_benchmark
    from knltrain.bench.elastic.table import format_table

    check_files(report_file)
    report = run_elastic_benchmark(network, batch, method, period, workers, rounds)
    show(report, format_table, report_file)
