"""`knltrain bench ops`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, listed, report_option, rounds_option, show


@click.command()
@click.option("--network", default="lenet", show_default=True, help="Network to take apart.")
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True)
@click.option(
    "--implementations",
    default="numba,onednn",
    show_default=True,
    help="Of numba, channels_last, onednn, reference, numba-bfloat16, for products onednn-bfloat16,"
    " and for convolutions fft; separated by commas, the first compared with the others.",
)
@click.option("--operations", default="", help="Only these, as 'convolution'; separated by commas.")
@click.option(
    "--winograd/--no-winograd", default=True, help="Whether numba may choose it, or Strassen's."
)
@click.option("--threads", type=click.IntRange(min=1), help="Default: one per core.")
@rounds_option(5)
@report_option
def ops(
    network: str,
    batch: int,
    implementations: str,
    operations: str,
    winograd: bool,
    threads: int | None,
    rounds: int,
    report_file: Path | None,
) -> None:
    """Time each operation of a network by itself, and show what was chosen for it."""
    from knltrain.bench.ops.benchmark import run_ops_benchmark
    from knltrain.bench.ops.report import format_table

    check_files(report_file)
    report = run_ops_benchmark(
        network,
        batch,
        listed("--implementations", implementations),
        threads,
        rounds,
        listed("--operations", operations),
        winograd,
    )
    show(report, format_table, report_file)
