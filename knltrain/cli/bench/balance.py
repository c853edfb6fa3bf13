"""`knltrain bench balance`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, parted, report_option, rounds_option, show
from knltrain.cli.saying import say


@click.command()
@click.option(
    "--speeds",
    default="400,100",
    show_default=True,
    help="Images/s of each worker, emulated; separated by commas.",
)
@click.option("--batch", type=click.IntRange(min=1), default=240, show_default=True)
@click.option("--steps", type=click.IntRange(min=2), default=60, show_default=True)
@rounds_option(3)
@report_option
def balance(speeds: str, batch: int, steps: int, rounds: int, report_file: Path | None) -> None:
    """Share out a batch among workers of unequal speed, by fitted shares and by equal ones.

    A run with fitted shares should come close to the sum of the workers' speeds.
    """
    from knltrain.bench.balance.benchmark import run_balance_benchmark
    from knltrain.bench.balance.report import format_table

    check_files(report_file)
    report = run_balance_benchmark(_numbers(speeds), batch, steps, rounds, say)
    show(report, format_table, report_file)


def _numbers(speeds: str) -> tuple[float, ...]:
    try:
        found = tuple(map(float, parted(speeds)))
    except ValueError:
        found = ()
    if not found or not all(0 < each < float("inf") for each in found):
        raise click.BadParameter(
            f"'{speeds}': expected numbers of images/s above 0, as in 400,100",
            param_hint="--speeds",
        )
    return found
