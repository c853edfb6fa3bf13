"""`knltrain bench cost-model`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, numbers, report_option, show

_ABOVE_ZERO = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option("--network", default="googlenet", show_default=True)
@click.option("--ranks", default="2,4,8,16,32,64", show_default=True, help="Numbers of nodes.")
@click.option(
    "--latency-us",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Of a message, in microseconds.",
)
@click.option(
    "--gbytes-per-second",
    type=_ABOVE_ZERO,
    default=8.0,
    show_default=True,
    help="Of a link, each way.",
)
@report_option
def cost_model(
    network: str,
    ranks: str,
    latency_us: float,
    gbytes_per_second: float,
    report_file: Path | None,
) -> None:
    """Predict exchanges of a network by several algorithms; compare with published runs.

    Nothing is measured.
    """
    from knltrain.bench.cost_model.benchmark import format_report, run_cost_model

    check_files(report_file)
    wanted = numbers("--ranks", ranks)
    report = run_cost_model(network, wanted, latency_us, gbytes_per_second)
    show(report, format_report, report_file)
