"""The words a user types: knltrain train, warmup, evaluate, doctor, bench.

Everything heavy is imported inside a command, so that --help and --version answer at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from affinity.errors import AffinityError
from knltrain import __version__
from knltrain.errors import BAD_INPUT, SIGNALLED, KnltrainError

_SIGINT = 2
_RUN_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_PYTHON = click.Path(exists=True, dir_okay=False, executable=True, path_type=Path)
_NEW_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


def main() -> None:
    """Run the command line and exit; every error that we know of becomes one line."""
    try:
        sys.exit(commands(prog_name="knltrain", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped by SIGINT", SIGNALLED + _SIGINT)
    except KnltrainError as error:
        _fail(str(error), error.exit_code)
    except AffinityError as error:
        _fail(str(error), BAD_INPUT)


def _fail(message: str, exit_code: int) -> None:
    click.echo(f"error: {message}", err=True)
    sys.exit(exit_code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="knltrain")
def commands() -> None:
    """Train convolutional networks on many-core CPUs."""


@commands.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option(
    "--workers",
    metavar="N|auto|UNIT",
    help="Number of workers, or one for each core, tile, l3, numa (node) or package.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace one key of CONFIG."
)
@click.option("--name", help="Name of the run's folder.")
@click.option("--resume", "run_folder", type=_RUN_FOLDER, help="Go on with the run of this folder.")
def train(
    config: Path | None,
    workers: str | None,
    overrides: tuple[str, ...],
    name: str | None,
    run_folder: Path | None,
) -> None:
    """Train as CONFIG (a TOML file) says, or go on with a run that was stopped.

    With --resume only train.epochs, train.steps and placement.pin may be --set.
    """
    if (config is None) == (run_folder is None):
        raise click.UsageError("expected either CONFIG or --resume RUN_FOLDER")
    if run_folder is not None and (workers is not None or name is not None):
        raise click.UsageError("--resume goes on with the same --workers and --name")
    from knltrain.config import load_config
    from knltrain.launch import training
    from knltrain.report import draw_curves, summary

    if config is not None:
        own = {"workers": workers, "name": name and json.dumps(name)}
        extra = [f"{key}={value}" for key, value in own.items() if value is not None]
        run_folder = training.train(load_config(config, (*overrides, *extra)))
    else:
        assert run_folder is not None
        training.resume(run_folder, overrides)
    draw_curves(run_folder)
    click.echo(summary(run_folder))


@commands.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace one key of CONFIG."
)
def warmup(config: Path, overrides: tuple[str, ...]) -> None:
    """Compile the kernels that a run of CONFIG needs on this kind of processor, and keep them."""
    from knltrain.config import load_config
    from knltrain.launch.warmup import warm_up

    for line in warm_up(load_config(config, overrides)).lines():
        click.echo(line)


@commands.command()
@click.argument("run_folder", type=_RUN_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def evaluate(run_folder: Path, as_json: bool) -> None:
    """Measure the newest checkpoint's model on the run's test images."""
    from knltrain.launch.evaluate_run import evaluate_run

    evaluated = evaluate_run(run_folder)
    found = evaluated.found
    if as_json:
        fields = {
            "checkpoint": str(evaluated.checkpoint),
            "step": evaluated.step,
            "accuracy": found.accuracy,
            "loss": found.loss,
            "images": found.images,
        }
        click.echo(json.dumps(fields))
        return
    click.echo(
        f"{evaluated.checkpoint}: accuracy {found.accuracy:.2%} of {found.images:,} test images, "
        f"loss {found.loss:.4f}"
    )


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Look whether this machine is fit for training; exit code 1 if something is not."""
    from knltrain.doctor import diagnose, format_text, to_json

    diagnosis = diagnose()
    click.echo(to_json(diagnosis) if as_json else format_text(diagnosis))
    return int(diagnosis.level == "fail")


@commands.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def topology(options: tuple[str, ...]) -> int:
    """Show the machine's cores and memories, as python -m affinity show does."""
    from affinity.cli.words import main as affinity_main

    return affinity_main(["show", *options])


@commands.group()
def bench() -> None:
    """Measure speed on this machine."""


@bench.command()
@click.option("--network", default="lenet", show_default=True, help="Network to train.")
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    help="Images per step; default: 32, lenet 64, cifar-quick 100.",
)
@click.option(
    "--peers",
    default="",
    help="Others: torch, torch-tuned, torch-compile, torch-optimized, ipex, unpinned; "
    "separated by commas.",
)
@click.option(
    "--ipex-python",
    type=_PYTHON,
    help="Python of the peer ipex; default: .venv-ipex/bin/python, or else this one.",
)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="In all; default: one per core.")
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True)
@click.option("--json", "report_file", type=_NEW_FILE, help="Write a JSON file.")
def step(
    network: str,
    batch: int | None,
    peers: str,
    ipex_python: Path | None,
    workers: int,
    threads: int | None,
    rounds: int,
    report_file: Path | None,
) -> None:
    """Time one training step, and weigh its memory."""
    from knltrain.bench.step import run_step_benchmark
    from knltrain.bench.step_report import format_table

    _check_folder_of(report_file)
    names = _listed(peers)
    report = run_step_benchmark(network, batch, names, threads, rounds, workers, ipex_python)
    click.echo(format_table(report))
    _write_report(report_file, report)


@bench.command()
@click.option("--network", default="lenet", show_default=True, help="Network to take apart.")
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True)
@click.option(
    "--implementations",
    default="numba,onednn",
    show_default=True,
    help="Of numba, onednn, reference; separated by commas, the first compared with the others.",
)
@click.option("--operations", default="", help="Only these, as 'convolution'; separated by commas.")
@click.option("--winograd/--no-winograd", default=True, help="Whether numba may choose it.")
@click.option("--threads", type=click.IntRange(min=1), help="Default: one per core.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--json", "report_file", type=_NEW_FILE, help="Write a JSON file.")
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
    from knltrain.bench.ops import run_ops_benchmark
    from knltrain.bench.ops_report import format_table

    _check_folder_of(report_file)
    report = run_ops_benchmark(
        network, batch, _listed(implementations), threads, rounds, _listed(operations), winograd
    )
    click.echo(format_table(report))
    _write_report(report_file, report)


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _check_folder_of(report_file: Path | None) -> None:
    """Refuse before anything is measured."""
    if report_file is not None and not report_file.parent.is_dir():
        raise click.BadParameter(
            f"there is no folder '{report_file.parent}' to write '{report_file.name}' into: "
            "make it first",
            param_hint="--json",
        )


def _write_report(report_file: Path | None, report: dict[str, Any]) -> None:
    if report_file is None:
        return
    try:
        report_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(report_file), error.strerror) from error
