"""`knltrain bench nodes`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, listed, report_option, show


@click.command()
@click.option("--network", default="googlenet", show_default=True)
@click.option(
    "--trainings",
    default="all",
    show_default=True,
    help="one-host, ddp-one-host, and of ccl and gloo: X, X-bfloat16, layerwise-X, ddp-X.",
)
@click.option(
    "--nodes",
    type=int,
    default=2,
    show_default=True,
    help="Hosts, with the cores of a worker each.",
)
@click.option(
    "--gbits",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="What each host sends, in Gbit/s.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Of each worker."
)
@click.option("--steps", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True)
@report_option
def nodes(
    network: str,
    trainings: str,
    nodes: int,
    gbits: float,
    batch: int,
    steps: int,
    rounds: int,
    report_file: Path | None,
) -> None:
    """Time trainings on several hosts of this machine beside the same on one.

    Hosts are network namespaces, which need iproute2 and root.
    """
    from knltrain.bench.nodes.benchmark import run_nodes_benchmark
    from knltrain.bench.nodes.table import format_table

    check_files(report_file)
    report = run_nodes_benchmark(
        network,
        listed(trainings),
        nodes=nodes,
        gbits=gbits,
        batch=batch,
        steps=steps,
        rounds=rounds,
        tell=lambda line: click.echo(line, err=True),
    )
    show(report, format_table, report_file)
