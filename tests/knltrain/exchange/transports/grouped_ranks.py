"""Ranks of MPI, each a group of threads: `python -m mpi4py grouped_ranks.py SCENE GROUPS`.

So many groups share the memory of a node. Each worker prints a line of JSON, what it has found.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from knltrain.communication.mpi.runtime import load_mpi
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import OverlappedPushStrategy
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.method import Levels, Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.strategy import Strategy, strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.joining import join, join_for_one_sided
from vectorized_ops.reference import elastic

SIZE, GROUP, STEPS = 1003, 3, 12
OUTSIDE = Method(
    "shmcaffe_h",
    EASGD(0.25, elastic),
    OverlappedPushStrategy,
    schedule="first_come",
    after="step",
)
INSIDE = Method("shmcaffe_h", GradientMean(GROUP, elastic.synchronous_average), SynchronousStrategy)


def grouped(outside: Method) -> Method:
    levels = Levels(GROUP, INSIDE, outside)
    return replace(outside, strategy=HierarchicalStrategy, levels=levels)


METHOD = grouped(OUTSIDE)
Work = Callable[[GroupedTeam], list[Any]]


def target(rank: int) -> np.ndarray:
    """Where worker `rank` would go alone: its loss is half the squared distance from there."""
    return np.random.default_rng(rank).standard_normal(SIZE, np.float32)


def trained(team: GroupedTeam, method: Method = METHOD) -> list[np.ndarray]:
    """Parameters and model after each step, in which all settle and meet."""
    part, found = strategy_in(method, team), []
    part.start_from(np.ones(SIZE, np.float32))
    part.begin()
    for step in range(STEPS):
        take_step(part, step)
        part.settle()
        team.barrier()
        found += [part.parameters.copy(), part.model.copy()]
        team.barrier()
    part.close()
    return found


def take_step(part: Strategy, step: int) -> None:
    part.step_begins(step)
    part.gradient[:] = part.parameters - target(part.team.rank)
    part.gradient_ready(step)
    part.parameters[:] -= np.float32(0.1) * part.gradient
    part.stepped(step)


def as_on_one_node(team: GroupedTeam) -> list[Any]:
    """One group does to the last bit what it does where all share one memory."""
    found = trained(team, grouped(replace(OUTSIDE, period=2)))
    return [hash_of(found), float(np.abs(found[-1] - found[0]).max()) > 0]


def conserves(team: GroupedTeam) -> list[Any]:
    """What leaves the groups enters the center, whoever comes when; all of a group are level."""
    part = strategy_in(METHOD, team)
    part.start_from(np.ones(SIZE, np.float32))
    part.begin()
    part.parameters[:] += np.float32(team.rank // GROUP)
    team.barrier()
    before = of_all_roots(team, part.parameters) + part.model
    for step in range(STEPS):
        part.exchange(step)
    part.settle()
    team.barrier()
    after = of_all_roots(team, part.parameters) + part.model
    moved = bool((part.model > 1).all())
    kept = team.outside is None or bool(np.allclose(before, after, rtol=1e-5))
    found = [kept, moved, hash_of([part.parameters]), hash_of([part.model])]
    team.barrier()
    part.close()
    return found


def of_all_roots(team: GroupedTeam, values: np.ndarray) -> np.ndarray:
    """The sum of the roots' vectors, in double precision, at the roots."""
    total = np.zeros(SIZE)
    if team.outside is not None:
        load_mpi().COMM_WORLD.Allreduce(values.astype(np.float64), total)
    return total


def team(team: GroupedTeam) -> list[Any]:
    numbers = [team.rank, team.workers, team.inside.rank, team.outside is not None]
    sums = team.all_sum(np.array([1.0, team.rank])).tolist()
    assert (team.link_rate(1 << 16) is None) is (team.outside is None)
    for step in range(1, STEPS + 1):
        assert team.progress(step)[team.rank] == step
    team.barrier()
    found = team.progress(STEPS + team.rank // GROUP).tolist()
    assert found[team.rank] == STEPS + team.rank // GROUP
    team.barrier()
    steps = team.progress(STEPS + team.rank // GROUP).tolist()
    team.barrier()
    team.close()
    return [numbers, sums, steps]


def hash_of(vectors: list[np.ndarray]) -> int:
    return zlib.crc32(b"".join(vector.tobytes() for vector in vectors))


def memory_of_node(world: Any, groups: int) -> NodeMemory:
    """That which the first rank of each ``groups`` has made."""
    made = None
    if world.rank % groups == 0:
        made = NodeMemory(SIZE, groups * GROUP, METHOD, "memfd", nodes=2)
    told = world.allgather(None if made is None else (os.getpid(), made.all_fds))
    pid, fds = told[world.rank // groups * groups]
    if made is None:
        opened = [os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR) for fd in fds]
        made = NodeMemory.attach(opened, METHOD)
    world.barrier()
    return made


def in_threads(memory: NodeMemory, ranks: range, connect: Callable[[int], Any], work: Work) -> None:
    told = threading.Lock()

    def one(rank: int) -> None:
        try:
            found = work(connect(rank))
        except BaseException:
            memory.abort(1)
            raise
        with told:
            os.write(sys.stdout.fileno(), f"{json.dumps([rank, found])}\n".encode())

    with ThreadPoolExecutor(GROUP) as threads:
        list(threads.map(one, ranks))
    memory.close()


def main() -> None:
    scene, groups = sys.argv[1], int(sys.argv[2])
    mpi = load_mpi()
    world, work = mpi.COMM_WORLD, {"conserves": conserves, "team": team}.get(scene, as_on_one_node)
    workers = world.size * GROUP
    first = world.rank * GROUP
    memory = memory_of_node(world, groups)

    def connect(rank: int) -> Any:
        fds = [os.dup(fd) for fd in memory.fds_of(rank % (groups * GROUP))]
        return join_for_one_sided(fds, rank, workers, lambda *_: mpi, 30.0, 60.0)

    in_threads(memory, range(first, first + GROUP), connect, work)
    if work is as_on_one_node:
        on_one = NodeMemory(SIZE, GROUP, METHOD, "memfd")
        in_threads(
            on_one,
            range(GROUP),
            lambda rank: join([os.dup(fd) for fd in on_one.fds_of(rank)], rank, 30.0),
            work,
        )


if __name__ == "__main__":
    main()
