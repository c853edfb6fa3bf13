"""`knltrain bench one-sided`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, numbers, report_option, rounds_option, show


@click.command(name="one-sided")
@click.option("--size", default="28MB", show_default=True, help="Of the vector, as 64K or 28MB.")
@rounds_option(9)
@click.option(
    "--owner",
    type=click.Choice(["numba", "python", "sleep"]),
    default="numba",
    show_default=True,
    help="What the owner of the memory does meanwhile.",
)
@click.option("--transport", type=click.Choice(["shm", "tcp"]), default="shm", show_default=True)
@click.option(
    "--processes",
    help="Instead: so many processes at once, as 2,4,8,16,32, each with a buffer of that size.",
)
@report_option
def one_sided(
    size: str,
    rounds: int,
    owner: str,
    transport: str,
    processes: str | None,
    report_file: Path | None,
) -> None:
    """Time reads, writes and accumulates of another process's memory, by MPI.

    With --processes, all together read and write as much, while the owner only serves them.
    """
    from knltrain.bench.exchange.sizes import parse_size
    from knltrain.bench.one_sided.benchmark import format_table, run_one_sided_benchmark

    check_files(report_file)
    if processes is not None:
        from knltrain.bench.one_sided.sweep import format_sweep, run_sweep

        if owner != "numba":
            raise click.UsageError("--owner with --processes: the owner only serves them")
        counts = numbers("--processes", processes)
        sweep = run_sweep(parse_size(size), rounds, counts, transport)
        show(sweep, format_sweep, report_file)
        return
    report = run_one_sided_benchmark(parse_size(size), rounds, owner, transport)
    show(report, format_table, report_file)
