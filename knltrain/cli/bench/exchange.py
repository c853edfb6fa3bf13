"""`knltrain bench exchange`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import (
    check_files,
    listed,
    picture_option,
    report_option,
    rounds_option,
    show,
    workers_per_core_option,
)

SIZES = "4K,16K,64K,256K,1M,4M,16M,28MB,64M,256M,512M"


@click.command()
@click.option(
    "--sizes",
    default=SIZES,
    show_default=True,
    help="Of vectors: K, M and G are powers of 1024, KB, MB and GB of 1000.",
)
@click.option("--workers", type=int, default=2, show_default=True)
@rounds_option(7)
@click.option(
    "--peers",
    default="knlshm,gloo,oneccl,oneccl-shm,mpi",
    show_default=True,
    help="Libraries to compare with; one that is not there is named.",
)
@click.option("--network", help="Exchange its parameters packed, and one tensor after the other.")
@workers_per_core_option
@report_option
@picture_option("bandwidth over size")
def exchange(
    sizes: str,
    workers: int,
    rounds: int,
    peers: str,
    network: str | None,
    workers_per_core: int,
    report_file: Path | None,
    picture: Path | None,
) -> None:
    """Time exchanges between the workers of this machine."""
    from knltrain.bench.exchange.benchmark import run_exchange_benchmark
    from knltrain.bench.exchange.picture import draw_bandwidths
    from knltrain.bench.exchange.sizes import parse_sizes
    from knltrain.bench.exchange.table import format_table

    check_files(report_file, picture)
    names = listed("--peers", peers)
    report = run_exchange_benchmark(
        parse_sizes(sizes), workers, rounds, names, network, workers_per_core
    )
    show(report, format_table, report_file, picture, draw_bandwidths)
