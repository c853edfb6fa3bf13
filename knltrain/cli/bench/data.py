"""`knltrain bench data`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, listed, report_option, show


@click.command()
@click.option(
    "--recipes",
    default="caffe,cifar,none,vgg,inception",
    show_default=True,
    help="Recipes of data.recipe; separated by commas.",
)
@click.option("--pixels", type=click.IntRange(min=1), default=256, show_default=True)
@click.option(
    "--side", type=click.IntRange(min=1), default=224, show_default=True, help="Of an image."
)
@click.option("--channels", type=click.Choice(["1", "3"]), default="3", show_default=True)
@click.option("--images", type=click.IntRange(min=1), default=64, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True)
@click.option("--implementation", default="numba", show_default=True, help="numba or reference.")
@report_option
def data(
    recipes: str,
    pixels: int,
    side: int,
    channels: str,
    images: int,
    rounds: int,
    implementation: str,
    report_file: Path | None,
) -> None:
    """Time how fast pictures become images, by each recipe, beside a copy of memory."""
    from knltrain.bench.data.benchmark import run_data_benchmark
    from knltrain.bench.data.report import format_table

    check_files(report_file)
    report = run_data_benchmark(
        listed(recipes), pixels, side, int(channels), images, rounds, implementation
    )
    show(report, format_table, report_file)
