"""``run``: starts the same command in the place of every rank, or of one."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial

from affinity.cli.layout import showable, table
from affinity.cli.monitor import FIRST_LOOK_SECONDS, Bystander
from affinity.cli.preload import preload_value
from affinity.cli.ranks import Ranks, Start
from affinity.cli.show_plan import kernel_words, order_words
from affinity.cli.subreaper import in_keeper
from affinity.cpulist import format_cpulist
from affinity.errors import AffinityError, PlacementError
from affinity.exec import worker_command
from affinity.numbers import whole_number
from affinity.placement.plan import Placement, Plan
from affinity.placement.wording import counted, numbered
from affinity.process.thread_environment import placement_environment
from affinity.topology import Topology

RUN_VARIABLE = "AFFINITY_RUN"
"""Tells each rank who it is: rank/workers/name of the run."""

LOCAL_RANK_VARIABLES = (
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PALS_LOCAL_RANKID",
    "LOCAL_RANK",
)
"""Variables with a process's local rank: of Slurm, Open MPI, Intel MPI and MPICH, HPE's PALS,
torchrun."""


def run_plan(topology: Topology, plan: Plan, options: argparse.Namespace) -> int:
    """Start all ranks, return their exit status; with --rank become that one and never return."""
    _check(options)
    variables = dict(options.env)
    if options.preload:
        variables["LD_PRELOAD"] = preload_value(options.preload)
    if options.rank is not None:
        rank = own_rank(options.rank, len(plan.workers), os.environ)
        command = rank_command(plan, rank, options.command, variables, options.pin_threads)
        os.execv(command[0], command)
    name = f"{os.getpid()}-{time.time_ns():x}"  # two runs of a user never have the same
    variables = {RUN_VARIABLE: f"{{rank}}/{{workers}}/{name}", **variables}
    for line in (*plan.notes, *_inherited(options.pin_threads)):
        _say(f"note: {line}")
    bystander = Bystander(topology, plan) if options.report_bindings else None
    if bystander:
        _say(f"where each rank is to be\n{bindings_table(topology, plan)}")

    def work(lifeline: int) -> int:
        keeper = os.getpid()
        starts = [
            Start(
                worker.rank,
                partial(
                    rank_command,
                    *(plan, worker.rank, options.command, variables, options.pin_threads, keeper),
                ),
                worker.memory.nodes if worker.memory.mode == "bind" else (),
            )
            for worker in plan.workers
        ]
        status = Ranks(options.tag, options.grace_seconds, bystander).run(starts, lifeline)
        return _proved(bystander, status) if bystander else status

    return in_keeper(work)


def rank_command(
    plan: Plan,
    rank: int,
    command: Sequence[str],
    variables: Mapping[str, str],
    pin_threads: bool,
    die_with_parent: int | None = None,
    say_to: int | None = None,
) -> list[str]:
    """The command line of a rank's `command` in its place, with {rank} and the like filled in."""
    placement = plan.workers[rank]
    words = _filled_in(placement, len(plan.workers))
    return worker_command(
        [_fill_in(part, words) for part in command],
        placement,
        {name: _fill_in(value, words) for name, value in variables.items()},
        die_with_parent,
        pin_threads,
        say_to,
    )


def bindings_table(topology: Topology, plan: Plan) -> str:
    """One line for each rank: its cpu mask and its memory policy."""
    head = ("rank", "cpus", "threads", "memory in this order", "kernel is told")
    rows = [
        (
            str(worker.rank),
            format_cpulist(worker.cpus),
            str(worker.threads),
            order_words(topology, worker.memory),
            kernel_words(worker.memory),
        )
        for worker in plan.workers
    ]
    return table(head, rows, right=(0, 2))


def own_rank(asked: int | str, workers: int, environment: Mapping[str, str]) -> int:
    """The rank of the option, or of a launcher's variable.

    Raises PlacementError if there is no such rank, or no launcher's variable.
    """
    rank = asked if isinstance(asked, int) else _local_rank(environment)
    if rank >= workers:
        there = "the only one is 0" if workers == 1 else f"there are 0 to {workers - 1}"
        raise PlacementError(f"there is no rank {rank}: {there}, for {counted(workers, 'worker')}")
    return rank


def _check(options: argparse.Namespace) -> None:
    if not options.command or not options.command[0]:
        raise AffinityError("no command given: write it after --, as in run --workers 4 -- ./train")
    asked = (("--tag", options.tag), ("--report-bindings", options.report_bindings))
    for name, given in asked:
        if given and options.rank is not None:
            raise AffinityError(
                f"{name} does not work with --rank: this process "
                "becomes the command; leave one of the two out"
            )


def _proved(bystander: Bystander, status: int) -> int:
    """Report where the ranks were; the status, or 1 if all ended well, but not in their places."""
    _say(f"where each rank was seen to be\n{bystander.report()}")
    if unproved := bystander.unproved():
        _say(
            f"strict: nothing is proved of {numbered('rank', unproved)}, which ended before the "
            f"first look, {FIRST_LOOK_SECONDS:g} s after the start: let the command run longer, or "
            "prove it from within, by judge(own_placement(), observed_binding()) of affinity"
        )
    misplaced = bystander.misplaced()
    if misplaced and status == 0:
        _say(f"{numbered('rank', misplaced)} out of place, so the status is 1")
        return 1
    return status


def _local_rank(environment: Mapping[str, str]) -> int:
    for name in LOCAL_RANK_VARIABLES:
        if (rank := whole_number(environment.get(name))) is not None:
            return rank
    raise PlacementError(
        "--rank auto: no launcher has said which process on this node this is (none of "
        f"{', '.join(LOCAL_RANK_VARIABLES)} is set): start with srun or mpirun, or give the rank"
    )


def _filled_in(placement: Placement, workers: int) -> dict[str, str]:
    return {
        "rank": str(placement.rank),
        "workers": str(workers),
        "threads": str(placement.threads),
        "cpus": format_cpulist(placement.cpus),
        "nodes": format_cpulist(placement.numa_nodes),
        "memory": format_cpulist(placement.memory.nodes),
        "communication": format_cpulist(placement.communication_cpus),
        "data": format_cpulist(placement.data_cpus),
    }


def _fill_in(text: str, words: Mapping[str, str]) -> str:
    # Not str.format: other braces, as in JSON or awk, are the command's own.
    return re.sub(rf"\{{({'|'.join(words)})\}}", lambda match: words[match[1]], text)


def _inherited(pin_threads: bool) -> list[str]:
    variables = {} if pin_threads else placement_environment()
    told = " ".join(f"{name}={value}" for name, value in variables.items())
    if not told:
        return []
    return [
        f"{told} is inherited, and makes OpenMP move threads, often all onto one core: "
        f"unset {' '.join(variables)}, or use --pin-threads"
    ]


def _say(message: str) -> None:
    sys.stderr.write(showable(f"affinity run: {message}\n", sys.stderr.encoding))
    sys.stderr.flush()
