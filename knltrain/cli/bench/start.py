"""`knltrain bench start`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from knltrain.cli.bench.report import check_files, listed, report_option, rounds_option, show
from knltrain.cli.options import PathFromHome, overrides_option, refuse_own_keys
from knltrain.cli.saying import say

_OWN_KEYS: Final = {
    "workers": "--workers",
    "train.batch": "--batch, images of each worker",
    "network.name": "--networks",
    **dict.fromkeys(("name", "runs_folder"), "none: runs are in a folder of the bench's own"),
}


@click.command()
@click.option("--networks", default="lenet,googlenet,resnet-50", show_default=True)
@click.option(
    "--caches",
    default="empty,filled",
    show_default=True,
    help="Kernel caches: empty, filled, or package (empty beside --package).",
)
@click.option(
    "--package",
    type=PathFromHome(exists=True, file_okay=False, path_type=Path),
    help="Folder of ready kernels that scripts/build_kernels has made.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Of each worker."
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@rounds_option(3)
@overrides_option
@report_option
def start(
    networks: str,
    caches: str,
    package: Path | None,
    batch: int,
    workers: int,
    rounds: int,
    overrides: tuple[str, ...],
    report_file: Path | None,
) -> None:
    """Time runs from their command to the end of their first step."""
    from knltrain.bench.start.benchmark import run_start_benchmark
    from knltrain.bench.start.table import format_table

    check_files(report_file)
    refuse_own_keys(overrides, _OWN_KEYS)
    report = run_start_benchmark(
        listed("--networks", networks),
        listed("--caches", caches),
        batch=batch,
        workers=workers,
        rounds=rounds,
        package=package,
        overrides=overrides,
        tell=lambda line: say(line, error=True),
    )
    show(report, format_table, report_file)
