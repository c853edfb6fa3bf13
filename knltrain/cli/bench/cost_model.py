"""`knltrain bench cost-model`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, listed, numbers, report_option, show
from knltrain.cli.options import ABOVE_ZERO, NOT_NEGATIVE, refuse_without


@click.command()
@click.option("--network", default="googlenet", show_default=True)
@click.option("--ranks", default="2,4,8,16,32,64", show_default=True, help="Numbers of nodes.")
@click.option(
    "--latency-us",
    type=NOT_NEGATIVE,
    default=1.0,
    show_default=True,
    help="Of a message, in microseconds.",
)
@click.option(
    "--gbytes-per-second",
    type=ABOVE_ZERO,
    default=8.0,
    show_default=True,
    help="Of a link, each way.",
)
@click.option(
    "--methods",
    default="",
    help="Predict steps of these methods, too: as 'knltrain methods' lists them, or all.",
)
@click.option(
    "--computing-ms",
    type=ABOVE_ZERO,
    default=100.0,
    show_default=True,
    help="Of such a step, without its exchange.",
)
@click.option(
    "--all-reduce",
    default="ring",
    show_default=True,
    help="Of such steps: ring, recursive-doubling, halving-and-doubling, tree, the measured times "
    "knl-omni-path, or a CSV file of bytes,ranks,seconds.",
)
@click.option(
    "--servers",
    type=click.IntRange(min=1),
    help="Ranks on which centers lie that workers visit; default: all.",
)
@report_option
def cost_model(
    network: str,
    ranks: str,
    latency_us: float,
    gbytes_per_second: float,
    methods: str,
    computing_ms: float,
    all_reduce: str,
    servers: int | None,
    report_file: Path | None,
) -> None:
    """Predict exchanges of a network, and steps of methods; compare with published runs.

    Nothing is measured.
    """
    from knltrain.bench.cost_model.benchmark import format_report, run_cost_model

    check_files(report_file)
    names = listed("--methods", methods)
    refuse_without("--methods", bool(names), ("computing_ms", "all_reduce", "servers"))
    report = run_cost_model(
        network,
        numbers("--ranks", ranks),
        latency_us,
        gbytes_per_second,
        methods=names,
        computing_ms=computing_ms,
        all_reduce=all_reduce,
        servers=servers,
    )
    show(report, format_report, report_file)
