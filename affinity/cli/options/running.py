"""Options of `run` that say how the command is started."""

from __future__ import annotations

import argparse

from affinity.exec import assignment
from affinity.numbers import whole_number


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """One rank or all, what they inherit, and what is reported of them."""
    group = parser.add_argument_group("starting")
    group.add_argument(
        "--rank",
        metavar="N|auto",
        type=_rank,
        help="become the command in the place of this rank, start no others; auto: the rank on "
        "this node that srun or mpirun gave this process",
    )
    group.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=assignment,
        help="set a variable; {rank} and the like are filled in, as in CMD",
    )
    group.add_argument(
        "--preload",
        metavar="LIB",
        action="append",
        default=[],
        help="load this library first: a path, or a name as in tcmalloc, jemalloc, iomp5",
    )
    group.add_argument(
        "--pin-threads",
        action="store_true",
        help="OpenMP keeps each computing thread on a core of its own",
    )
    group.add_argument("--tag", action="store_true", help="begin each line of output with [rank]")
    group.add_argument(
        "--report-bindings",
        action="store_true",
        help="say each rank's place at the start, and at the end where it was seen to be; with "
        "--policy strict the status is 1 if that differs",
    )
    group.add_argument(
        "--grace-seconds",
        metavar="S",
        type=_seconds,
        default=10.0,
        help="time to end by themselves before ranks are killed (10)",
    )


def _rank(text: str) -> int | str:
    rank = text if text == "auto" else whole_number(text)
    if rank is None:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a rank, 0 or more, nor auto")
    return rank


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds
