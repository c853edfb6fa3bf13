"""`knltrain bench step`."""

from __future__ import annotations

from pathlib import Path

import click

from knltrain.cli.bench.report import check_files, listed, report_option, rounds_option, show
from knltrain.cli.options import PathFromHome

_PYTHON = PathFromHome(exists=True, dir_okay=False, executable=True, path_type=Path)


@click.command()
@click.option("--network", default="lenet", show_default=True, help="Network to train.")
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    help="Images per step; default: 32, lenet 64, cifar-quick 100.",
)
@click.option(
    "--peers",
    default="",
    help="Others: torch, torch-tuned, torch-compile, torch-optimized, ipex, unpinned; with "
    "--precision bfloat16 ours in float32, too: cpu-float32; separated by commas.",
)
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="cuda, cuda:1, xpu or auto: the torch backend there; peers: compiled (ours), torch, "
    "torch-graph, torch-compile.",
)
@click.option(
    "--precision",
    type=click.Choice(["float32", "tf32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="bfloat16: of our activations on the host, of products on a device and under autocast; "
    "tf32: on NVIDIA GPUs.",
)
@click.option(
    "--ipex-python",
    type=_PYTHON,
    help="Python of the peer ipex; default: .venv-ipex/bin/python, or else this one.",
)
@click.option(
    "--evaluate", "evaluates", is_flag=True, help="Time the evaluation of a batch instead."
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="In all; default: one per core.")
@rounds_option(7)
@report_option
def step(
    network: str,
    batch: int | None,
    peers: str,
    device: str,
    precision: str,
    ipex_python: Path | None,
    evaluates: bool,
    workers: int,
    threads: int | None,
    rounds: int,
    report_file: Path | None,
) -> None:
    """Time one training step, and weigh its memory."""
    from knltrain.bench.step.benchmark import run_step_benchmark
    from knltrain.bench.step.report import format_table

    check_files(report_file)
    names = listed("--peers", peers)
    report = run_step_benchmark(
        network, batch, names, threads, rounds, workers, ipex_python, device, precision,
        evaluates,
    )  # fmt: skip
    show(report, format_table, report_file)
