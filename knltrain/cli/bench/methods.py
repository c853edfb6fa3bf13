"""`knltrain bench methods`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from knltrain.cli.bench.report import (
    check_files,
    listed,
    picture_option,
    report_option,
    rounds_option,
    show,
)
from knltrain.cli.options import ABOVE_ZERO, NOT_NEGATIVE
from knltrain.cli.saying import say
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    from knltrain.bench.methods.entrants import Scaling


@click.command()
@click.option("--network", default="lenet", show_default=True, help="Network to train.")
@click.option(
    "--data-root", metavar="DIR", help="Folder with MNIST, for lenet; default: the digits."
)
@click.option(
    "--methods",
    "names",
    default="all",
    show_default=True,
    help="As 'knltrain methods' lists them; separated by commas.",
)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option(
    "--threads", type=click.IntRange(min=1), help="Of each worker; default: the cores, shared."
)
@click.option(
    "--epochs", type=click.IntRange(min=1), help="Default: 8; cifar-quick 6, googlenet 2."
)
@click.option("--accuracy", type=float, help="Time the way to it; default: 0.97, others 0.9.")
@rounds_option(1)
@click.option(
    "--scaling",
    type=click.Choice(["strong", "weak"]),
    default="strong",
    show_default=True,
    help="Workers share a batch, or each has one, which makes fewer steps of the same images.",
)
@click.option(
    "--link-gbits",
    type=ABOVE_ZERO,
    help="Emulate a link of so many Gbit/s for each worker.",
)
@click.option("--link-latency-us", type=NOT_NEGATIVE, default=0.0, help="Of it.")
@click.option(
    "--predict/--no-predict",
    "predicts",
    default=True,
    show_default=True,
    help="Foresee the speed of each method by the cost model, from short trainings.",
)
@report_option
@picture_option("accuracy and costs")
def methods(
    network: str,
    data_root: str | None,
    names: str,
    workers: int,
    threads: int | None,
    epochs: int | None,
    accuracy: float | None,
    rounds: int,
    scaling: Scaling,
    link_gbits: float | None,
    link_latency_us: float,
    predicts: bool,
    report_file: Path | None,
    picture: Path | None,
) -> None:
    """Train by every method on the same images: accuracy, time to it, and where the time goes."""
    from knltrain.bench.methods.benchmark import run_methods_benchmark
    from knltrain.bench.methods.picture import draw_methods
    from knltrain.bench.methods.table import format_table

    check_files(report_file, picture)
    if link_latency_us and link_gbits is None:
        raise ConfigError(
            f"--link-latency-us {link_latency_us:g}: a latency without a link; expected "
            "--link-gbits, too"
        )
    link = None
    if link_gbits is not None:
        link = {"emulated_link_gbits": link_gbits, "emulated_latency_us": link_latency_us}
    report = run_methods_benchmark(
        network,
        data_root,
        listed("--methods", names),
        workers,
        rounds,
        epochs=epochs,
        accuracy=accuracy,
        threads=threads,
        link=link,
        scaling=scaling,
        predicts=predicts,
        tell=lambda line: say(line, error=True),
    )
    show(report, format_table, report_file, picture, draw_methods)
