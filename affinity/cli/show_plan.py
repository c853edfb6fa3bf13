"""A plan as text: cores and memory of each worker, whether they fit, and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from affinity.cli.core_map import core_map
from affinity.cli.layout import bullets, page, section, table, told_of
from affinity.cli.phrases import machine_name, memory_names
from affinity.cpulist import format_cpulist
from affinity.numbers import format_bytes
from affinity.placement.plan import Arena, MemoryPlan, Placement, Plan
from affinity.placement.wording import counted
from affinity.topology import Topology

_POLICIES = {
    "strict": "only on the nodes that the kernel is told; more than fits is refused beforehand",
    "spill": "nodes fill in the order given; nothing fails while there is memory anywhere",
    "split": "each need on nodes of its own, the rest of the process as the table says",
    "weighted": "pages alternate between the nodes, in the ratio of their bandwidths",
    "cache": "left to the hardware, for which HBM is a cache of DRAM",
    "none": "left to the kernel and to what the process inherits",
}
_HEAD = ("rank", "cores", "threads", "node", "memory, in this order", "kernel is told", "share",
         "needs", "communication", "data", "cpus")  # fmt: skip
_TO_THE_RIGHT = (0, 1, 2, 6, 7)
_LONGEST_ORDER = 2


def show_plan(topology: Topology, plan: Plan) -> str:
    """The whole plan as text: a table, a map of the cores, where the needs go, and why."""
    policy = plan.workers[0].memory.policy
    return page(
        (
            f"{counted(len(plan.workers), 'worker')} on {machine_name(topology)}\n"
            f"memory {policy}: {_POLICIES[policy]}",
            _table(topology, plan.workers),
            section("Cores", [*core_map(topology, plan), *_left_over(plan)]),
            section("Where the needs go", told_of("rank", _needs(topology, plan.workers))),
            section("Why", told_of("rank", _reasons(plan.workers))),
            section("To note", bullets(plan.notes)),
        )
    )


def kernel_words(memory: MemoryPlan | Arena) -> str:
    """A memory policy in the terms of set_mempolicy(2): ``"preferred 4"``."""
    return f"{memory.mode} {format_cpulist(memory.nodes)}".strip()


def _table(topology: Topology, workers: Sequence[Placement]) -> str:
    """A row for each worker, with its GPU where some have one."""
    rows = [_row(topology, worker) for worker in workers]
    if not any(worker.gpu for worker in workers):
        return table(_HEAD, rows, _TO_THE_RIGHT)
    rows = [(*row, worker.gpu) for row, worker in zip(rows, workers, strict=True)]
    return table((*_HEAD, "GPU"), rows, _TO_THE_RIGHT)


def _row(topology: Topology, worker: Placement) -> tuple[str, ...]:
    memory = worker.memory
    computing = frozenset(worker.cpus)
    cores = sum(1 for core in topology.cores if not computing.isdisjoint(core.cpus))
    return (
        str(worker.rank),
        str(cores),
        str(worker.threads),
        format_cpulist(worker.numa_nodes),
        order_words(topology, memory),
        kernel_words(memory),
        format_bytes(memory.budget_bytes) if memory.nodes else "",
        "" if memory.need_bytes is None else format_bytes(memory.need_bytes),
        format_cpulist(worker.communication_cpus),
        format_cpulist(worker.data_cpus),
        format_cpulist(worker.cpus),
    )


def order_words(topology: Topology, memory: MemoryPlan) -> str:
    """Memories that fill after each other (→), or at once (+): ``"HBM 2 → DRAM 0 → …"``."""
    if "interleave" in memory.mode:
        return " + ".join(memory_names(topology, memory.nodes))
    names = memory_names(topology, memory.order[:_LONGEST_ORDER])
    return " → ".join((*names, "…") if len(memory.order) > _LONGEST_ORDER else names)


def _left_over(plan: Plan) -> list[str]:
    told = (("kept for the system", plan.os_cpus), ("idle", plan.idle_cpus))
    return [f"{what}: cpus {format_cpulist(cpus)}" for what, cpus in told if cpus]


def _needs(topology: Topology, workers: Sequence[Placement]) -> Iterator[tuple[int, str]]:
    for worker in workers:
        for arena in worker.memory.arenas:
            size = "" if arena.need_bytes is None else f" {format_bytes(arena.need_bytes)}"
            names = ", ".join(memory_names(topology, arena.nodes)) or "any memory"
            yield worker.rank, f"{arena.name}{size} in {names} ({kernel_words(arena)})"
        parts = [
            f"{format_bytes(size)} in {memory_names(topology, [node])[0]}"
            for node, size in worker.memory.expected
        ]
        nowhere = (worker.memory.need_bytes or 0) - sum(size for _, size in worker.memory.expected)
        if parts and nowhere > 0:
            parts.append(f"{format_bytes(nowhere)} nowhere")
        total = "together " if worker.memory.arenas else ""
        yield worker.rank, total + ", ".join(parts) if parts else ""


def _reasons(workers: Sequence[Placement]) -> Iterator[tuple[int, str]]:
    for worker in workers:
        for reason in (*worker.reasons, *worker.memory.reasons):
            yield worker.rank, reason
