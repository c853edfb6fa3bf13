"""What the user requests, and the plan that results: cores and memory of each worker, and why.

Machine and permissions come from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from affinity.topology import Gpu

MemoryPolicy: TypeAlias = Literal["strict", "spill", "split", "weighted", "cache", "none"]
"""How a worker's memory is tied to its nodes.

strict    only there; what does not fit is refused beforehand, as the kernel would kill the process
spill     there first, then the DRAM of the same socket
split     each need where it asks to be (`Need.kind`), the rest of the process in DRAM
weighted  HBM and DRAM together, pages in the ratio of their bandwidths
cache     nothing to tie: HBM is a cache of DRAM; warns when what is needed exceeds it
none      left to the kernel and to what it inherited
"""

WantedKind: TypeAlias = Literal["best", "hbm", "dram"]
"""`best`: HBM where the worker's cores have some, their DRAM elsewhere."""

Unit: TypeAlias = Literal["core", "tile", "l3", "numa", "package"]
Strategy: TypeAlias = Literal["close", "scatter"]


@dataclass(frozen=True, slots=True)
class Need:
    """Memory that every worker needs under one name: weights, data ...

    `bytes` is None where it is not known; `kind` counts where the policy is `split`.
    """

    name: str
    bytes: int | None
    kind: WantedKind = "best"


@dataclass(frozen=True, slots=True)
class Reserve:
    """Cores kept from the workers' computing threads.

    `os_cpus`: these cpus, with all of their tile, go to nobody. `os_cores`: so many cores of each
    package go to nobody, those with the lowest cpus first. `communication_cores` and `data_cores`
    are taken from the end of each worker's own cores; with `communication_on_siblings` the
    communication threads get the second hardware threads of its computing cores instead.
    """

    os_cpus: tuple[int, ...] = ()
    os_cores: int = 0
    communication_cores: int = 0
    communication_on_siblings: bool = False
    data_cores: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A number of workers, or one per unit, and how they are to sit.

    `cores_per_worker` None means all there are. `close` fills the machine from the front,
    `scatter` spreads the workers over packages and NUMA nodes; they differ only if cores are
    left over. `cpus` gives each rank its cpus by hand, and the rest of the request only its
    memory. `hbm_nodes` is not here: what is HBM is said when the machine is read.

    `gpus` are those of the workers by rank, None for one that computes on its cores; ranks behind
    have none either. A worker with a GPU gets `gpu_host_cores` cores next to it, before the others
    share the rest. None means 2, or all there are where every worker has a GPU.
    """

    workers: int | Unit = 1
    cores_per_worker: int | None = None
    threads_per_core: int = 1
    strategy: Strategy = "close"
    cpus: tuple[tuple[int, ...], ...] = ()
    reserve: Reserve = Reserve()
    policy: MemoryPolicy = "spill"
    kind: WantedKind = "best"
    needs: tuple[Need, ...] = ()
    gpus: tuple[Gpu | None, ...] = ()
    gpu_host_cores: int | None = None


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
    unless communication runs on the siblings of computing cores. `gpu` is the address of its GPU
    (the UUID of a part of one, a MIG instance), "" without one; `visible_gpus` are the UUIDs of all
    GPUs that it is to see, its own first, empty where they are not known.
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
    gpu: str = ""
    visible_gpus: tuple[str, ...] = ()

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
