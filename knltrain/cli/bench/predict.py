"""`knltrain bench predict`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import (
    check_files,
    decimals,
    listed,
    report_option,
    rounds_option,
    show,
    workers_per_core_option,
)
from knltrain.cli.saying import say


@click.command()
@click.option("--network", default="lenet", show_default=True)
@click.option(
    "--methods",
    "names",
    default="all",
    show_default=True,
    help="As 'knltrain methods' lists them; separated by commas.",
)
@click.option(
    "--nodes", type=click.IntRange(min=1), default=2, show_default=True,
    help="Emulated hosts with a worker each; 1: the workers share a node.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(min=2), default=2, show_default=True, help="Of one node."
)
@click.option(
    "--link-gbits", default="1,10", show_default=True, help="Links to predict for, in Gbit/s."
)
@click.option(
    "--fit-link-gbits",
    default="0.5,2,40",
    show_default=True,
    help="Links that the model is fitted to: by exchanges with next to no computing, and over the "
    "fastest by whole trainings.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Of each worker."
)
@click.option(
    "--steps",
    type=click.IntRange(min=8),
    default=64,
    show_default=True,
    help="Steps over each link in each round, at least, and for a second or more.",
)
@rounds_option(3)
@workers_per_core_option
@report_option
def predict(
    network: str,
    names: str,
    nodes: int,
    workers: int,
    link_gbits: str,
    fit_link_gbits: str,
    batch: int,
    steps: int,
    rounds: int,
    workers_per_core: int,
    report_file: Path | None,
) -> None:
    """Predict the step of each method on hosts of this machine, and measure it beside.

    Hosts are network namespaces, which need iproute2 and root.
    """
    from knltrain.bench.predict.benchmark import run_predict_benchmark
    from knltrain.bench.predict.table import format_table

    check_files(report_file)
    report = run_predict_benchmark(
        network,
        listed("--methods", names),
        nodes=nodes,
        workers=workers,
        gbits=decimals("--link-gbits", link_gbits),
        fitted_gbits=decimals("--fit-link-gbits", fit_link_gbits),
        batch=batch,
        steps=steps,
        rounds=rounds,
        workers_per_core=workers_per_core,
        tell=lambda line: say(line, error=True),
    )
    show(report, format_table, report_file)
