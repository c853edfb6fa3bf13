"""The user's request; machine and permissions come from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

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
