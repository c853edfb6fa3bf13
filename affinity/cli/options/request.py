"""Options that say how workers are placed, and the `Request` made from them."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from difflib import get_close_matches
from typing import get_args

from affinity.cli.options.reading import count, typed
from affinity.cli.phrases import parse_bytes
from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import AffinityError, PlacementError
from affinity.numbers import whole_number
from affinity.placement.plan import (
    MemoryPolicy,
    Need,
    Request,
    Reserve,
    Strategy,
    Unit,
    WantedKind,
)
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

FIT = "fit"
"""In place of a number of workers: as many as fit."""

ALL = "all"
"""In place of a number of workers with a GPU: one for each."""


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """How many workers, on which cores, with which memory."""
    _add_worker_options(parser.add_argument_group("the workers"))
    _add_reserve_options(parser.add_argument_group("cores that do not compute"))
    _add_memory_options(parser.add_argument_group("their memory"))


def request_from(options: argparse.Namespace) -> Request:
    """The request of the options, for one worker where they ask for as many as fit.

    Raises PlacementError if they give no number of workers.
    """
    if options.workers is None and not options.cpus_by_rank and not options.gpu_workers:
        raise PlacementError(
            "how many workers? say --workers 4, or one for each unit: --workers numa "
            f"({', '.join(get_args(Unit))})"
        )
    workers = 1 if options.workers == FIT else options.workers
    return Request(
        workers=max(1, len(options.cpus_by_rank)) if workers is None else workers,
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
        gpu_host_cores=options.gpu_host_cores,
    )


def with_gpus(request: Request, topology: Topology, options: argparse.Namespace) -> Request:
    """The request with the GPUs for --gpu-workers; PlacementError if there are fewer.

    Of a recorded machine all may be used. "all" is one for each GPU, at most for all workers.
    """
    asked = options.gpu_workers
    if not asked:
        return request
    from affinity.process.visible_gpus import visible_gpus

    recorded = getattr(options, "machine", None)
    visible = visible_gpus(topology.gpus, {} if recorded else os.environ)
    if asked == ALL:
        most = len(request.cpus) or options.workers
        asked = max(1, min(len(visible.gpus), most if isinstance(most, int) else sys.maxsize))
    gpus = visible.first(asked)
    alone = options.workers is None and not request.cpus
    return replace(request, gpus=gpus, workers=len(gpus) if alone else request.workers)


def narrowed(
    allowed: AllowedResources, topology: Topology, options: argparse.Namespace
) -> AllowedResources:
    """The allowed part of the cpus and nodes in --cpus and --nodes; PlacementError if empty."""
    cpus, said_by = frozenset(allowed.cpus), list(allowed.said_by)
    if options.cpus is not None:
        cpus &= frozenset(options.cpus)
        said_by.append(f"--cpus {format_cpulist(options.cpus) or 'none'}")
    if options.nodes is not None:
        cores = (core for core in topology.cores if core.numa_node in options.nodes)
        cpus &= {cpu for core in cores for cpu in core.cpus}
        said_by.append(f"--nodes {format_cpulist(options.nodes) or 'none'}")
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
    _add_count(
        group, "--cores-per-worker", "so many cores for each, helpers included, not all there are",
        default=None,
    )  # fmt: skip
    _add_count(group, "--threads-per-core", "threads that compute on each core (1)", default=1)
    group.add_argument(
        "--strategy",
        choices=get_args(Strategy),
        default="close",
        help="with cores left over: fill the machine from the front, or spread over it (close)",
    )
    group.add_argument(
        "--gpu-workers",
        metavar="N|all",
        type=_gpu_workers,
        default=0,
        help="the first N workers compute on a GPU each, with cores next to it (0)",
    )
    _add_count(
        group, "--gpu-host-cores", "cores for each of these (2; all, where each worker has a GPU)",
        default=None,
    )  # fmt: skip
    _add_list(group, "--cpus", "share out only these cpus", default=None)
    _add_list(group, "--nodes", "share out only the cores of these nodes", default=None)
    group.add_argument(
        "--cpus-by-rank",
        metavar="LISTS",
        type=typed(_cpus_by_rank),
        default=(),
        help="by hand: 0-7:8-15 gives rank 0 cpus 0-7 and rank 1 cpus 8-15",
    )


def _add_reserve_options(group: argparse._ArgumentGroup) -> None:
    _add_count(group, "--os-cores", "keep N of each package for the system")
    _add_list(group, "--os-cpus", "keep these cpus, with their whole tiles, for the system")
    _add_count(
        group, "--communication-cores", "the last N of each worker are for its communication"
    )
    group.add_argument(
        "--communication-on-siblings",
        action="store_true",
        help="those threads go on second hardware threads of computing cores instead",
    )
    _add_count(group, "--data-cores", "N of each worker read data")


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
        type=typed(_need),
        help="memory that every worker needs, as in weights=2G@hbm; repeat for more",
    )


def _add_count(
    group: argparse._ArgumentGroup, name: str, told: str, default: int | None = 0
) -> None:
    group.add_argument(name, metavar="N", type=count, default=default, help=told)


def _add_list(
    group: argparse._ArgumentGroup, name: str, told: str, default: tuple[int, ...] | None = ()
) -> None:
    group.add_argument(name, metavar="LIST", type=typed(parse_cpulist), default=default, help=told)


def _workers(text: str) -> int | str:
    if (number := whole_number(text)) is not None:
        return number
    units = (*get_args(Unit), FIT)
    if text in units:
        return text
    close = get_close_matches(text, units, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise argparse.ArgumentTypeError(
        f"{text!r} is neither a number nor one of {', '.join(units)}{hint}"
    )


def _gpu_workers(text: str) -> int | str:
    number = whole_number(text)
    if number is None and text != ALL:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor {ALL}")
    return ALL if number is None else number


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
