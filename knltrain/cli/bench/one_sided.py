"""`knltrain bench one-sided`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, report_option, show


@click.command(name="one-sided")
@click.option("--size", default="28MB", show_default=True, help="Of the vector, as 64K or 28MB.")
@click.option("--rounds", type=click.IntRange(min=1), default=9, show_default=True)
@click.option(
    "--owner",
    type=click.Choice(["numba", "python", "sleep"]),
    default="numba",
    show_default=True,
    help="What the owner of the memory does meanwhile.",
)
@click.option("--transport", type=click.Choice(["shm", "tcp"]), default="shm", show_default=True)
@report_option
def one_sided(size: str, rounds: int, owner: str, transport: str, report_file: Path | None) -> None:
    """Time reads, writes and accumulates of another process's memory, by MPI."""
    from knltrain.bench.exchange.sizes import parse_size
    from knltrain.bench.one_sided.benchmark import format_table, run_one_sided_benchmark

    check_files(report_file)
    report = run_one_sided_benchmark(parse_size(size), rounds, owner, transport)
    show(report, format_table, report_file)
