"""`knltrain bench nodes`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import (
    check_files,
    listed,
    report_option,
    rounds_option,
    show,
    workers_per_core_option,
)
from knltrain.cli.options import ABOVE_ZERO, NOT_NEGATIVE
from knltrain.cli.saying import say
from knltrain.errors import ConfigError


@click.command()
@click.option("--network", default="googlenet", show_default=True)
@click.option(
    "--trainings",
    default="all",
    show_default=True,
    help="one-host, ddp-one-host, of ccl and gloo X, X-bfloat16, layerwise-X, ddp-X; trees-mpi, "
    "seasgd, star; all: those whose packages are installed.",
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
    type=ABOVE_ZERO,
    default=10.0,
    show_default=True,
    help="What each host sends, in Gbit/s.",
)
@click.option(
    "--latency-us",
    type=NOT_NEGATIVE,
    default=0.0,
    help="Of the links, one way, in microseconds.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Of each worker."
)
@click.option("--steps", type=click.IntRange(min=1), default=10, show_default=True)
@rounds_option(3)
@workers_per_core_option
@click.option(
    "--trace-steps",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Keep traces of the first steps, trace-TRAINING-RANK.json beside the JSON file, and tell "
    "from them what is hidden.",
)
@report_option
def nodes(
    network: str,
    trainings: str,
    nodes: int,
    gbits: float,
    latency_us: float,
    batch: int,
    steps: int,
    rounds: int,
    workers_per_core: int,
    trace_steps: int,
    report_file: Path | None,
) -> None:
    """Time trainings on several hosts of this machine beside the same on one.

    Hosts are network namespaces, which need iproute2 and root.
    """
    from knltrain.bench.nodes.benchmark import run_nodes_benchmark
    from knltrain.bench.nodes.table import format_table

    check_files(report_file)
    if trace_steps and report_file is None:
        raise ConfigError(
            f"--trace-steps {trace_steps}: traces are kept beside the report: expected --json FILE"
        )
    report = run_nodes_benchmark(
        network,
        listed("--trainings", trainings),
        nodes=nodes,
        gbits=gbits,
        latency_us=latency_us,
        batch=batch,
        steps=steps,
        rounds=rounds,
        workers_per_core=workers_per_core,
        trace_steps=trace_steps,
        traces=report_file.parent if report_file is not None else None,
        tell=lambda line: say(line, error=True),
    )
    show(report, format_table, report_file)
