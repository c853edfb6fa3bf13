"""`knltrain bench ddp`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, listed, report_option, rounds_option, show


@click.command()
@click.option(
    "--backends", default="knlshm,gloo", show_default=True, help="Of torch.distributed, to compare."
)
@click.option("--workers", type=int, default=2, show_default=True)
@click.option(
    "--width", type=int, default=1024, show_default=True, help="Of the layers; VGG's is 4096."
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Of each rank."
)
@rounds_option(7)
@report_option
def ddp(
    backends: str, workers: int, width: int, batch: int, rounds: int, report_file: Path | None
) -> None:
    """Time training steps of PyTorch's DistributedDataParallel over its backends."""
    from knltrain.bench.ddp.benchmark import run_ddp_benchmark
    from knltrain.bench.ddp.table import format_table

    check_files(report_file)
    report = run_ddp_benchmark(listed("--backends", backends), workers, width, batch, rounds)
    show(report, format_table, report_file)
