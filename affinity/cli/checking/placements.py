"""Checks that plans on a machine cut no tile and give no core to two workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError, TooManyWorkers
from affinity.placement.place import place_workers
from affinity.placement.plan import Plan, Request, Unit
from affinity.placement.tiles import has_cache, uncut
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

_UNITS: tuple[Unit, ...] = ("package", "numa", "l3")

REQUESTS = (
    Request(workers=1),
    Request(workers=2),
    Request(workers=4, strategy="scatter", cores_per_worker=1),
    *(Request(workers=unit) for unit in _UNITS),
)
"""The requests for every machine; too few cores for one is a valid answer."""


def broken_placements(topology: Topology) -> tuple[int, list[str]]:
    """How many of `REQUESTS` the machine has places for, and the faults of their plans."""
    allowed, made, wrong = AllowedResources(cpus=topology.cpus), 0, list[str]()
    for request in REQUESTS:
        if request.workers == "l3" and not has_cache(topology, 3):
            continue
        try:
            plan = place_workers(topology, allowed, request)
        except TooManyWorkers:
            continue
        except PlacementError as error:
            wrong.append(f"{request.workers} workers are refused: {error}")
            continue
        made += 1
        wrong += (f"{request.workers} workers: {fault}" for fault in faults(topology, plan))
    return made, wrong


def faults(topology: Topology, plan: Plan) -> Iterator[str]:
    """The faults of a plan for the whole machine: cut tiles, cores given twice."""
    holders = [(worker.rank, frozenset(worker.all_cpus)) for worker in plan.workers]
    times = Counter(cpu for _, cpus in holders for cpu in cpus)
    if twice := [cpu for cpu, count in times.items() if count > 1]:
        yield f"cpus {format_cpulist(twice)} are given to several"
    if absent := set(times).difference(topology.cpus):
        yield f"cpus {format_cpulist(absent)} do not run"
    yield from (f"worker {rank} has no cpus" for rank, cpus in holders if not cpus)
    for cpus in (frozenset(core.cpus) for core in topology.cores):
        if any(held & cpus and not cpus <= held for _, held in holders):
            yield f"the core of cpus {format_cpulist(cpus)} is cut"
    for tile in uncut(topology):
        cpus = frozenset(cpu for core in tile for cpu in core.cpus)
        if sum(not cpus.isdisjoint(held) for _, held in holders) > 1:
            yield f"the tile of cpus {format_cpulist(cpus)} is cut"
    yield from _lost_memories(topology, plan)


def _lost_memories(topology: Topology, plan: Plan) -> Iterator[str]:
    known = {node.id for node in topology.numa_nodes}
    for worker in plan.workers:
        named = {*worker.numa_nodes, *worker.memory.nodes, *worker.memory.order}
        if lost := named - known:
            nodes = format_cpulist(lost)
            yield f"worker {worker.rank} is sent to NUMA node {nodes}, which does not exist"
