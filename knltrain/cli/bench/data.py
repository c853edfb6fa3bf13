"""`knltrain bench data`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, listed, report_option, rounds_option, show
from knltrain.cli.options import refuse_without


@click.command()
@click.option(
    "--recipes",
    default="caffe,cifar,none,vgg,inception,randaugment",
    show_default=True,
    help="Recipes of data.recipe; separated by commas.",
)
@click.option("--pixels", type=click.IntRange(min=1), default=256, show_default=True)
@click.option(
    "--side", type=click.IntRange(min=1), default=224, show_default=True, help="Of an image."
)
@click.option("--channels", type=click.Choice(["1", "3"]), default="3", show_default=True)
@click.option("--images", type=click.IntRange(min=1), default=64, show_default=True)
@rounds_option(7)
@click.option("--implementation", default="numba", show_default=True, help="numba or reference.")
@click.option(
    "--sources",
    default="packed,lmdb,lmdb-first,jpeg,folder",
    show_default=True,
    help="Files that pictures are read from; separated by commas.",
)
@click.option(
    "--files",
    type=click.IntRange(min=512),
    help="Time the first batch of a folder of so many files, too, as 60000.",
)
@click.option("--network", help="Train it on JPEGs and on computed pictures, too; takes minutes.")
@click.option("--batch", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--steps", type=click.IntRange(min=2), default=8, show_default=True)
@report_option
def data(
    recipes: str,
    pixels: int,
    side: int,
    channels: str,
    images: int,
    rounds: int,
    implementation: str,
    sources: str,
    files: int | None,
    network: str | None,
    batch: int,
    steps: int,
    report_file: Path | None,
) -> None:
    """Time how fast pictures become images: by each recipe, from files, in training.

    Beside them are a copy of memory, simplejpeg's own decoding, and training on computed pictures.
    """
    from knltrain.bench.data.benchmark import run_data_benchmark
    from knltrain.bench.data.report import format_table
    from knltrain.bench.data.sources import check_sources, run_sources_benchmark
    from knltrain.bench.data.training import check_network, run_training_benchmark

    check_files(report_file)
    names = listed("--sources", sources)
    check_sources(names)
    refuse_without("--network", network is not None, ("batch", "steps"))
    if network is not None:
        check_network(network, batch)
    report = run_data_benchmark(
        listed("--recipes", recipes), pixels, side, int(channels), images, rounds, implementation
    )
    if network is not None and "jpeg" not in names:
        names = (*names, "jpeg")
    given = pixels, side, int(channels), rounds, implementation
    report["sources"] = run_sources_benchmark(names, *given)
    if files is not None:
        from knltrain.bench.data.first_batch import run_first_batch_benchmark

        report["first_batch"] = run_first_batch_benchmark(files, min(rounds, 3))
    if network is not None:
        rates = {row["source"]: row["pictures_per_second"] for row in report["sources"]}
        training = run_training_benchmark(network, pixels, batch, steps, 2, rates["jpeg"])
        report["training"] = training
    show(report, format_table, report_file)
