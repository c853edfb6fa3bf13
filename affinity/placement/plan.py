"""The result of a `Request`: cores and memory of each worker, and the reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from affinity.placement.request import MemoryPolicy

KernelMode: TypeAlias = Literal[
    "default", "bind", "preferred", "preferred-many", "interleave", "weighted-interleave"
]
"""Memory policies as Linux has them (set_mempolicy(2))."""


@dataclass(frozen=True, slots=True)
class Arena:
    """A named part of a worker's memory with a place of its own (policy `split`)."""

    name: str
    mode: KernelMode
    nodes: tuple[int, ...]
    need_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of a worker.

    `mode` and `nodes` are the policy for the kernel; `order` is how nodes fill, first to last, as
    far as it follows from that. `budget_bytes` is the worker's share of `nodes`; `expected` is how
    many bytes of its needs end up on which node, empty if its needs are not known.
    """

    policy: MemoryPolicy = "none"
    mode: KernelMode = "default"
    nodes: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    hbm: bool = False
    budget_bytes: int = 0
    need_bytes: int | None = None
    expected: tuple[tuple[int, int], ...] = ()
    arenas: tuple[Arena, ...] = ()
    reasons: tuple[str, ...] = ()

    def arena(self, name: str) -> Arena | None:
        """The arena `name`; None if all memory of the worker is in one place, or has no such."""
        return next((arena for arena in self.arenas if arena.name == name), None)


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of one worker: `cpus` it may run on and `threads`, how many compute.

    `cpus` are OS ids: all the allowed hardware threads of its computing cores. `cores` are the
    same core by core, empty if its threads may roam. `numa_nodes` are the nodes that its cores
    belong to. `communication_cpus` and `data_cpus` are for helping threads and not in `cpus`,
    unless communication runs on the siblings of computing cores.
    """

    rank: int
    cpus: tuple[int, ...]
    threads: int
    numa_nodes: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...] = ()
    threads_per_core: int = 1
    communication_cpus: tuple[int, ...] = ()
    data_cpus: tuple[int, ...] = ()
    memory: MemoryPlan = field(default_factory=MemoryPlan)
    reasons: tuple[str, ...] = ()

    @property
    def all_cpus(self) -> tuple[int, ...]:
        """All cpus that any thread of the worker may use."""
        return tuple(sorted({*self.cpus, *self.communication_cpus, *self.data_cpus}))


@dataclass(frozen=True, slots=True)
class Plan:
    """The places of all workers, what was kept for the system, and what is left idle.

    `notes` are warnings and whatever a user should read before starting.
    """

    workers: tuple[Placement, ...]
    os_cpus: tuple[int, ...] = ()
    idle_cpus: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
