"""`knltrain bench layers`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, report_option, show


@click.command()
@click.option("--network", default="lenet", show_default=True, help="Network to take apart.")
@click.option("--workers", type=int, default=2, show_default=True)
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Of each rank."
)
@click.option(
    "--chunks",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="In which a gradient is computed and sent.",
)
@click.option("--steps", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--implementation", default="numba", show_default=True, help="Of the kernels.")
@report_option
def layers(
    network: str,
    workers: int,
    batch: int,
    chunks: int,
    steps: int,
    implementation: str,
    report_file: Path | None,
) -> None:
    """Time each layer of a network, its kernels and the sum of its gradient over workers."""
    from knltrain.bench.layers.benchmark import format_table, run_layers_benchmark

    check_files(report_file)
    report = run_layers_benchmark(network, workers, batch, chunks, steps, implementation)
    show(report, format_table, report_file)
