"""Verifies that the threads and pages of a process are where its placement put them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypedDict

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import MemoryPolicyError
from affinity.numbers import format_bytes
from affinity.placement.plan import MemoryPlan, Placement
from affinity.process.binding import ThreadBinding, openmp_runtimes, thread_bindings
from affinity.process.memory_policy import memory_policy
from affinity.process.policy import Policy
from affinity.process.residency import Residency, process_residency

STRICT_ALLOWANCE_BYTES = 2 << 20
"""Bytes that may lie elsewhere although memory is bound, such as pages placed by the kernel."""


class ObservedMemory(TypedDict):
    """Bytes by node ("0", "1" ...) as in `Residency`: own, shared, and of files."""

    anonymous: dict[str, int]
    shared: dict[str, int]
    file: dict[str, int]


class ObservedBinding(TypedDict):
    """The observed place of a process: plain JSON-able facts for the record of a run.

    `memory_policy` is that of the thread that asked, as in ``bind:2-3``; it and `memory` are None
    where the kernel does not tell.
    """

    cpus: str
    threads: list[ThreadBinding]
    openmp_runtimes: list[str]
    memory_policy: str | None
    memory: ObservedMemory | None


def observed_binding(pid: int | str = "self") -> ObservedBinding:
    """Read from the kernel where each thread of a process may run and where its pages are now.

    ``cpus`` are those of all threads together, as OpenMP keeps the main thread on one core alone.
    More than one path in ``openmp_runtimes`` means that several pools compete for the same cpus.
    The policy of another process is not told: see `other_process.observe`. OSError if the process
    may not be inspected.
    """
    policy = None
    with suppress(MemoryPolicyError):
        policy = memory_policy() if pid in ("self", os.getpid()) else None
    return binding_seen(pid, policy, process_residency(pid))


def binding_seen(
    pid: int | str, policy: Policy | None, residency: Residency | None
) -> ObservedBinding:
    """What `observed_binding` tells, of memory that has been looked at already."""
    threads = thread_bindings(pid)
    return {
        "cpus": format_cpulist(cpu for thread in threads for cpu in parse_cpulist(thread["cpus"])),
        "threads": threads,
        "openmp_runtimes": openmp_runtimes(pid),
        "memory_policy": None if policy is None else str(policy),
        "memory": None if residency is None else _as_json(residency),
    }


def judge(placement: Placement, observed: ObservedBinding) -> tuple[str, ...]:
    """Deviations from `placement`, each with the expected and the observed value; empty: none.

    A thread may run on any cpu of its worker; for memory see `memory_problems`.
    """
    return (*thread_problems(placement, observed), *memory_problems(placement, observed))


def thread_problems(placement: Placement, *observed: ObservedBinding) -> tuple[str, ...]:
    """The part of `judge` about threads, of one process or several."""
    threads = [thread for process in observed for thread in process["threads"]]
    return tuple(_threads_outside(placement, threads))


def memory_problems(placement: Placement, *observed: ObservedBinding) -> tuple[str, ...]:
    """The part of `judge` about memory, of one process or of all processes of a worker.

    It is a problem if none of the memory is where the plan puts it (that of the process, or of an
    arena whose need is known). With policy ``strict`` these are problems, too: another memory
    policy, more than `STRICT_ALLOWANCE_BYTES` of own memory elsewhere, and a kernel that does not
    tell. Shared memory counts as being there, but not as being elsewhere: other workers have parts
    of it. Each process is judged by itself, its arenas with those of the others: see
    `arena_problems`.
    """
    plan = placement.memory
    each = [problem for process in observed for problem in _problems_of_one(plan, process)]
    return (*each, *arena_problems(placement, *observed))


def arena_problems(placement: Placement, *observed: ObservedBinding) -> tuple[str, ...]:
    """Arenas of known need that have nothing on their nodes, in any of these processes.

    One of a worker's processes uses them, and not the shell that starts it.
    """
    told = [process["memory"] for process in observed if process["memory"] is not None]
    return tuple(_missing_arenas(placement.memory, _together(told)) if told else ())


def remarks(placement: Placement, observed: ObservedBinding) -> tuple[str, ...]:
    """Notes for the user even if nothing is wrong: shares, weaker policies, pools."""
    plan, memory = placement.memory, observed["memory"]
    told = [] if plan.policy == "strict" else list(_other_policy(plan, observed["memory_policy"]))
    if plan.nodes and memory is not None:
        total, there = _own_bytes(memory), _own_bytes(memory, plan.nodes)
        share = f"{100 * there / total:.0f} %" if total else "0 %"
        told.append(f"{format_bytes(there)} of {format_bytes(total)} ({share}) on {_nodes(plan)}")
    if len(observed["openmp_runtimes"]) > 1:
        runtimes = ", ".join(observed["openmp_runtimes"])
        told.append(
            f"{len(observed['openmp_runtimes'])} OpenMP runtimes, each with threads of its own for "
            f"the same cores: {runtimes}; let them work in turn, or load one only"
        )
    return tuple(told)


def _threads_outside(placement: Placement, threads: Iterable[ThreadBinding]) -> Iterator[str]:
    own = set(placement.all_cpus)
    outside: dict[str, list[str]] = {}
    for thread in threads:
        if not own.issuperset(parse_cpulist(thread["cpus"])):
            outside.setdefault(thread["cpus"], []).append(f"{thread['id']} ({thread['name']})")
    for cpus, names in outside.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield (
            f"thread {', '.join(names[:3])}{more} may run on cpus {cpus}, "
            f"but worker {placement.rank} has {format_cpulist(own)}"
        )


def _problems_of_one(plan: MemoryPlan, observed: ObservedBinding) -> Iterator[str]:
    memory, strict = observed["memory"], plan.policy == "strict"
    if strict:
        yield from _other_policy(plan, observed["memory_policy"])
    if memory is not None:
        yield from _missing(plan, memory)
        yield from _elsewhere(plan, memory) if strict else ()
    elif strict:
        yield "the kernel does not tell where pages are: strict cannot be proved"


def _other_policy(plan: MemoryPlan, observed: str | None) -> Iterator[str]:
    asked = str(Policy(plan.mode, tuple(sorted(plan.nodes))))
    arenas = {str(Policy(arena.mode, tuple(sorted(arena.nodes)))) for arena in plan.arenas}
    if observed in {asked, *arenas}:  # It may be within an arena.
        return
    if plan.mode != "default" or not _as_good_as_none(plan, observed):
        yield f"memory policy {asked} was asked for, but it is {observed or 'not known'}"


def _as_good_as_none(plan: MemoryPlan, observed: str | None) -> bool:
    if plan.policy == "none" or observed is None:
        return True
    mode, _, nodes = observed.partition(":")
    # A launcher keeps the limit that it was given, and the plan has been made within that.
    within = mode == "bind" and {*plan.order[:1]} <= {*parse_cpulist(nodes)}
    return within or mode == "local"


def _missing(plan: MemoryPlan, memory: ObservedMemory) -> Iterator[str]:
    total = format_bytes(_own_bytes(memory))
    if plan.mode in ("interleave", "weighted-interleave"):
        empty = [node for node in plan.nodes if not _own_bytes(memory, (node,))]
        if empty:
            yield f"0 % of {total} on node {format_cpulist(empty)}, but {plan.mode} was asked for"
    elif plan.nodes and not _own_bytes(memory, plan.nodes):
        yield f"0 % of {total} on {_nodes(plan)}, where it was to be: {_where(memory)}"


def _missing_arenas(plan: MemoryPlan, memory: ObservedMemory) -> Iterator[str]:
    total = format_bytes(_own_bytes(memory))
    for arena in plan.arenas:
        if arena.need_bytes and arena.nodes and not _own_bytes(memory, arena.nodes):
            yield (
                f"0 % of {total} on node {format_cpulist(arena.nodes)}, where arena {arena.name} "
                f"({format_bytes(arena.need_bytes)}) was to be: {_where(memory)}"
            )


def _elsewhere(plan: MemoryPlan, memory: ObservedMemory) -> Iterator[str]:
    own = memory["anonymous"]
    elsewhere = sum(size for node, size in own.items() if int(node) not in plan.nodes)
    if plan.nodes and elsewhere > STRICT_ALLOWANCE_BYTES:
        yield (
            f"{format_bytes(elsewhere)} are not on {_nodes(plan)}, where strict wants all but "
            f"{format_bytes(STRICT_ALLOWANCE_BYTES)}: {_where(memory)}"
        )


def _together(memories: Iterable[ObservedMemory]) -> ObservedMemory:
    anonymous, shared, file = Counter[str](), Counter[str](), Counter[str]()
    for memory in memories:
        anonymous.update(memory["anonymous"])
        shared.update(memory["shared"])
        file.update(memory["file"])
    return {"anonymous": anonymous, "shared": shared, "file": file}


def _own_bytes(memory: ObservedMemory, nodes: Iterable[int] | None = None) -> int:
    """Own and shared bytes, on `nodes` if given."""
    wanted = None if nodes is None else {str(node) for node in nodes}
    parts = (memory["anonymous"], memory["shared"])
    return sum(n for part in parts for node, n in part.items() if wanted is None or node in wanted)


def _as_json(residency: Residency) -> ObservedMemory:
    def by_name(sizes: dict[int, int]) -> dict[str, int]:
        return {str(node): size for node, size in sizes.items()}

    return {
        "anonymous": by_name(residency.anonymous),
        "shared": by_name(residency.shared),
        "file": by_name(residency.file),
    }


def _where(memory: ObservedMemory) -> str:
    nodes = sorted(map(int, {*memory["anonymous"], *memory["shared"]}))
    sizes = ((node, _own_bytes(memory, (node,))) for node in nodes)
    return ", ".join(f"{format_bytes(size)} on node {node}" for node, size in sizes)


def _nodes(plan: MemoryPlan) -> str:
    alone = plan.hbm and not plan.mode.endswith("interleave")
    return f"{'HBM ' if alone else ''}node {format_cpulist(plan.nodes)}"
