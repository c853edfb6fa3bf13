"""Reasons for a worker's place, and warnings for the user, as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from affinity.placement.beside_gpus import gpu_of, name_of
from affinity.placement.plan import Placement, Request
from affinity.placement.sharing import ALIGNED_SHARE
from affinity.placement.tiles import Tile
from affinity.placement.wording import by_whom, counted, listed, numbered
from affinity.topology import Core, Gpu, Topology

if TYPE_CHECKING:
    from affinity.process.allowed import AllowedResources

UNIT_WORDS = {
    "core": "core",
    "tile": "tile (cores on one L2 cache)",
    "l3": "L3 cache",
    "numa": "NUMA node",
    "package": "package",
}


class Explainer:
    """Explains placements, by all available `cores` and the `tiles` that keep them together."""

    def __init__(
        self, topology: Topology, request: Request, cores: Sequence[Core], tiles: Sequence[Tile]
    ) -> None:
        self._request, self._total = request, len(cores)
        self._usable = Counter(core.numa_node for core in cores)
        self._existing = Counter(core.numa_node for core in topology.cores)
        self._tile_of = {
            cpu: len(tile.cores) for tile in tiles for core in tile.cores for cpu in core.cpus
        }

    def reasons(self, seat: Placement, cores: Sequence[Core], workers: int) -> tuple[str, ...]:
        """The reasons for a worker's cores."""
        gpu = gpu_of(seat.rank, self._request)
        how = self._how(workers) if gpu is None else _with_gpu(gpu, cores)
        sentences = [how, self._where(cores), *(self._across(cores) if gpu is None else ())]
        widest = max(self._tile_of[core.cpus[0]] for core in cores)
        if widest > 1 and not self._request.cpus and self._request.workers != "core":
            sentences.append(f"cores that share an L2 cache stay together, here up to {widest}")
        return (*sentences, _threads(seat), *_helpers(seat))

    def _how(self, workers: int) -> str:
        asked, each = self._request, self._request.cores_per_worker
        if asked.cpus:
            return "its cpus are given by hand"
        if isinstance(asked.workers, str):
            some = f", {counted(each, 'core')} of it" if each else ""
            return f"one worker for each {UNIT_WORDS[asked.workers]}{some}"
        if each is None:
            if any(asked.gpus):
                return "it has its share of the cores that workers with a GPU leave"
            if workers > 1:
                return f"{workers} workers share {counted(self._total, 'core')}"
            return f"one worker has {_all_of(self._total)} {_noun(self._total)}"
        way = (
            "from the front of the machine"
            if asked.strategy == "close"
            else "spread over the machine"
        )
        return f"{counted(workers, 'worker')} of {counted(each, 'core')}, {way}"

    def _where(self, cores: Sequence[Core]) -> str:
        parts = []
        for (package, node), number in _homes(cores).items():
            usable = self._usable[node]
            word = _noun(usable, "core" if usable == self._existing[node] else "usable core")
            some = _all_of(usable) if number == usable else f"{number} of the {usable}"
            parts.append(f"{some} {word} of NUMA node {node} (package {package})")
        return listed(parts)

    def _across(self, cores: Sequence[Core]) -> list[str]:
        homes = _homes(cores)
        whole = all(number == self._usable[node] for (_, node), number in homes.items())
        if len(homes) == 1 or whole or self._request.cpus:
            return []
        if self._request.cores_per_worker:
            return ["it spans NUMA nodes, as not all workers find room inside one"]
        return [
            "it spans NUMA nodes, as whole ones would leave some worker less than "
            f"{ALIGNED_SHARE:.0%} of an even share"
        ]


def _with_gpu(gpu: Gpu, cores: Sequence[Core]) -> str:
    """Which GPU a worker has, and whether its cores are next to it."""
    near = sum(not set(gpu.cpus).isdisjoint(core.cpus) for core in cores)
    some = "its cores" if near in (0, len(cores)) else f"{near} of its {len(cores)} cores"
    where = "next to it" if near else "away from it" if gpu.cpus else "anywhere"
    why = f" ({gpu.evidence})" if gpu.evidence else ""
    return f"it computes on GPU {name_of(gpu)}, {gpu.model}; {some} are {where}{why}"


def _all_of(number: int) -> str:
    return "the only" if number == 1 else f"all {number}"


def _noun(number: int, noun: str = "core") -> str:
    return counted(number, noun).partition(" ")[2]


def _homes(cores: Sequence[Core]) -> Counter[tuple[int, int]]:
    """How many cores are on which package and NUMA node."""
    return Counter((core.package, core.numa_node) for core in cores)


def plan_notes(
    topology: Topology,
    allowed: AllowedResources,
    request: Request,
    seats: Sequence[Placement],
    idle: Sequence[int],
) -> list[str]:
    """Notes on the places of all workers together: uneven, shared, idle, offline, throttled."""
    notes = [*_size_notes(request, seats), *_tile_notes(topology, request)]
    if idle:
        notes.append(f"allowed, but idle as no worker has them: {numbered('cpu', idle)}")
    if offline := set(allowed.cpus).intersection(topology.offline_cpus):
        notes.append(f"allowed, but offline: {numbered('cpu', offline)}")
    threads = sum(seat.threads for seat in seats)
    if allowed.cpu_quota is not None and threads > allowed.cpu_quota:
        notes.append(
            f"{_computing(threads)}, but the time of {allowed.cpu_quota:g} cpus is all that may be "
            f"used{by_whom(allowed)}: they will be stopped again and again; use fewer cores"
        )
    return notes


def _size_notes(request: Request, seats: Sequence[Placement]) -> list[str]:
    computing = (len(seat.cores) for seat in seats if not seat.gpu)
    sizes = sorted(Counter(computing).items(), reverse=True)
    if len(sizes) < 2 or request.cpus or isinstance(request.workers, str):
        return []
    groups = listed(f"{counted(number, 'worker')} with {cores}" for cores, number in sizes)
    return [f"workers are uneven: {groups} computing cores; all wait for the smallest"]


def _tile_notes(topology: Topology, request: Request) -> Iterable[str]:
    if request.workers == "core" and len(topology.tiles) < len(topology.cores):
        yield "one worker on each core, as asked: workers share the L2 caches of their tiles"
    if request.workers == "tile" and len(topology.tiles) == len(topology.cores):
        yield "no cores share an L2 here: every core counts as a tile"


def _threads(seat: Placement) -> str:
    each = "one" if seat.threads_per_core == 1 else str(seat.threads_per_core)
    most = max(map(len, seat.cores))
    mask = f"; all allowed hardware threads, up to {most} of a core, are in its mask"
    where = "its core" if len(seat.cores) == 1 else "each core"
    return f"{_computing(seat.threads)}, {each} on {where}{mask if most > 1 else ''}"


def _computing(threads: int) -> str:
    return "1 thread computes" if threads == 1 else f"{threads} threads compute"


def _helpers(seat: Placement) -> list[str]:
    reasons = []
    if seat.communication_cpus:
        shared = set(seat.communication_cpus) <= set(seat.cpus)
        one = len(seat.communication_cpus) == 1
        siblings = "sibling of its last computing core" if one else "siblings of its last cores"
        where = siblings if shared else "the last of its own cores"
        reasons.append(f"communication on {numbered('cpu', seat.communication_cpus)}, {where}")
    if seat.data_cpus:
        where = "taken from its own cores as well"
        reasons.append(f"data reading on {numbered('cpu', seat.data_cpus)}, {where}")
    return reasons
