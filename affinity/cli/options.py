"""What is typed behind the words, and the request that is made of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar, get_args

from affinity.cli.phrases import parse_bytes
from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import AffinityError, PlacementError
from affinity.machine.user_word import parse_hbm
from affinity.placement.request import (
    MemoryPolicy,
    Need,
    Request,
    Reserve,
    Strategy,
    Unit,
    WantedKind,
)
from affinity.process.allowed import Allowed
from affinity.topology import Topology

FIT = "fit"
"""In place of a number of workers: as many as fit."""

_T = TypeVar("_T")


def add_machine_options(parser: argparse.ArgumentParser, files: bool = True) -> None:
    """Which machine, and what its owner knows better than it tells."""
    group = parser.add_argument_group("the machine")
    if files:
        group.add_argument(
            "--machine",
            metavar="FILE",
            type=Path,
            help="another machine than this one: a snapshot, hwloc's XML, text of numactl -H",
        )
    group.add_argument(
        "--hbm",
        metavar="NODES",
        type=_typed(parse_hbm),
        help="these NUMA nodes are HBM, as in 2-3, or 8@0,9@1: 8 is that of node 0's cores",
    )


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """How many workers, on which cores, with which memory."""
    _add_worker_options(parser.add_argument_group("the workers"))
    _add_reserve_options(parser.add_argument_group("cores that do not compute"))
    _add_memory_options(parser.add_argument_group("their memory"))


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """How the command is started, beside where."""
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
        type=_assignment,
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
        help="say each rank's place at the start, and at the end where it was seen to be",
    )
    group.add_argument(
        "--grace-seconds",
        metavar="S",
        type=_seconds,
        default=10.0,
        help="time to end by themselves before ranks are killed (10)",
    )


def request_from(options: argparse.Namespace) -> Request:
    """The request that the options describe, for one worker where they ask for as many as fit.

    Raises PlacementError if they do not say how many.
    """
    if options.workers is None and not options.cpus_by_rank:
        raise PlacementError(
            "how many workers? say --workers 4, or one for each unit: --workers numa "
            f"({', '.join(get_args(Unit))})"
        )
    workers = 1 if options.workers == FIT else options.workers
    return Request(
        workers=len(options.cpus_by_rank) if workers is None else workers,
        cores_per_worker=options.cores_per_worker,
        threads_per_core=options.threads_per_core,
        strategy=options.strategy,
        cpus=options.cpus_by_rank,
        reserve=Reserve(
            os_cpus=options.os_cpus,
            os_cores=options.os_cores,
            communication_cores=options.communication_cores,
            communication_on_siblings=options.communication_on_siblings,
            data_cores=options.data_cores,
        ),
        policy=options.policy,
        kind=options.memory,
        needs=tuple(options.need),
    )


def narrowed(allowed: Allowed, topology: Topology, options: argparse.Namespace) -> Allowed:
    """What is allowed of what --cpus and --nodes name; PlacementError if that is nothing."""
    cpus, said_by = frozenset(allowed.cpus), list(allowed.said_by)
    if options.cpus is not None:
        cpus &= frozenset(options.cpus)
        said_by.append(f"--cpus {format_cpulist(options.cpus)}")
    if options.nodes is not None:
        cores = (core for core in topology.cores if core.numa_node in options.nodes)
        cpus &= {cpu for core in cores for cpu in core.cpus}
        said_by.append(f"--nodes {format_cpulist(options.nodes)}")
    if not cpus:
        raise PlacementError(
            f"no cpus are left by {' and '.join(said_by)}: allowed are "
            f"{format_cpulist(allowed.cpus) or 'none'}; choose among these"
        )
    return replace(allowed, cpus=tuple(sorted(cpus)), said_by=tuple(said_by))


def _add_worker_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--workers",
        metavar="N|UNIT",
        type=_workers,
        help=f"how many; one for each {', '.join(get_args(Unit))}; or fit: as many as have room, "
        "none on two NUMA nodes",
    )
    group.add_argument(
        "--cores-per-worker",
        metavar="N",
        type=int,
        help="so many cores for each, helpers included, not all there are",
    )
    group.add_argument(
        "--threads-per-core",
        metavar="N",
        type=int,
        default=1,
        help="threads that compute on each core (1)",
    )
    group.add_argument(
        "--strategy",
        choices=get_args(Strategy),
        default="close",
        help="with cores left over: fill the machine from the front, or spread over it (close)",
    )
    group.add_argument(
        "--cpus", metavar="LIST", type=_typed(parse_cpulist), help="share out only these cpus"
    )
    group.add_argument(
        "--nodes",
        metavar="LIST",
        type=_typed(parse_cpulist),
        help="share out only the cores of these nodes",
    )
    group.add_argument(
        "--cpus-by-rank",
        metavar="LISTS",
        type=_typed(_cpus_by_rank),
        default=(),
        help="by hand: 0-7:8-15 gives rank 0 cpus 0-7 and rank 1 cpus 8-15",
    )


def _add_reserve_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--os-cores", metavar="N", type=int, default=0, help="keep N of each package for the system"
    )
    group.add_argument(
        "--os-cpus",
        metavar="LIST",
        type=_typed(parse_cpulist),
        default=(),
        help="keep these cpus, with their whole tiles, for the system",
    )
    group.add_argument(
        "--communication-cores",
        metavar="N",
        type=int,
        default=0,
        help="the last N of each worker are for its communication threads",
    )
    group.add_argument(
        "--communication-on-siblings",
        action="store_true",
        help="those threads go on second hardware threads of computing cores instead",
    )
    group.add_argument(
        "--data-cores", metavar="N", type=int, default=0, help="N of each worker read data"
    )


def _add_memory_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--policy",
        choices=get_args(MemoryPolicy),
        default="spill",
        help="strict: only there; spill: there first (the default); split: each need in its own "
        "place; weighted: HBM and DRAM together; cache, none: nothing is tied",
    )
    group.add_argument(
        "--memory",
        choices=get_args(WantedKind),
        default="best",
        help="where: HBM if the cores have some, or hbm or dram for certain (best)",
    )
    group.add_argument(
        "--need",
        metavar="NAME=SIZE[@KIND]",
        action="append",
        default=[],
        type=_typed(_need),
        help="memory that every worker needs, as in weights=2G@hbm; repeat for more",
    )


def _workers(text: str) -> int | str:
    if text.isascii() and text.isdigit():
        return int(text)
    units = (*get_args(Unit), FIT)
    if text in units:
        return text
    close = get_close_matches(text, units, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise argparse.ArgumentTypeError(
        f"{text!r} is neither a number nor one of {', '.join(units)}{hint}"
    )


def _need(text: str) -> Need:
    name, equals, rest = text.partition("=")
    size, at, kind = rest.partition("@")
    kinds = get_args(WantedKind)
    if not (name and equals and size) or (at and kind not in kinds):
        raise AffinityError(
            f"bad need {text!r}: expected NAME=SIZE or NAME=SIZE@KIND with one of the kinds "
            f"{', '.join(kinds)}, as in weights=2G@hbm; ? for a size that is not known"
        )
    wanted: WantedKind = kind if at else "best"  # type: ignore[assignment]  # Held above.
    return Need(name, None if size == "?" else parse_bytes(size), wanted)


def _cpus_by_rank(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(map(parse_cpulist, text.split(":")))


def _typed(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    def parsed(text: str) -> _T:
        try:
            return parse(text)
        except AffinityError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def _rank(text: str) -> int | str:
    if text == "auto" or (text.isascii() and text.isdigit()):
        return text if text == "auto" else int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither a rank, 0 or more, nor auto")


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds
