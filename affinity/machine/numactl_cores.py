"""Groups cpus into cores and packages where only the cpus of NUMA nodes are listed.

A placement must not cut a core in two. So Linux's usual numbering counts as evidence: first threads
of all cores, then second threads of all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from affinity.machine.description import Description, ThreadPlace
from affinity.machine.locality import homes_of_cpus, shared_cpus
from affinity.machine.processors import KNIGHTS_CORES, identify
from affinity.topology import Cache

SAME_PACKAGE_BELOW = 20
"""Firmware puts the nodes of one package closer together (11, 12), those of others at 20 or more.

Xeon Phi is the exception, with 21; but it is always a single package.
"""

KNIGHTS_L2_BYTES = 1 << 20
"""The L2 cache of each tile of a Xeon Phi."""

THREADS_PER_CORE = (2, 4, 8)
"""Hardware threads that cores with more than one have."""


@dataclass(frozen=True, slots=True)
class CoreWords:
    """What is said of cores apart from the list of cpus, and by whom (None: not said).

    `adjacent`: where Linux numbers the threads of a core one after another.
    """

    source: str = ""
    threads_per_core: int | None = None
    packages: int | None = None
    cores_per_package: int | None = None
    adjacent: bool = False


def place_threads(description: Description, words: CoreWords) -> dict[int, ThreadPlace]:
    """The place of each cpu that the nodes list; appends to notes what had to be concluded."""
    words = _possible(description, words)
    node_of = homes_of_cpus(description)
    cpus = sorted(node_of)
    cores = _cores(description, words, cpus)
    package_of = _packages(description, words, len(cores))
    return {
        cpu: ThreadPlace(package_of[node_of[cpu]], number)
        for number, core in enumerate(sorted(cores))
        for cpu in core
    }


def _possible(description: Description, words: CoreWords) -> CoreWords:
    """The words without numbers of 0, which count as not said; appends to notes which."""
    numbers = {
        "threads per core": words.threads_per_core,
        "packages": words.packages,
        "cores per package": words.cores_per_package,
    }
    for what in (what for what, number in numbers.items() if number == 0):
        description.notes.append(f"{words.source} tells 0 {what}, which cannot be: left aside")
    return replace(
        words,
        threads_per_core=words.threads_per_core or None,
        packages=words.packages or None,
        cores_per_package=words.cores_per_package or None,
    )


def tiles_of_knights(description: Description) -> list[Cache]:
    """The L2 caches of a Xeon Phi, each shared by two cores; none of other processors.

    Appends to notes why. Its cores have to be known: cpus that count as cores have none.
    """
    cores: defaultdict[ThreadPlace, list[int]] = defaultdict(list)
    for cpu, place in sorted(description.threads.items()):
        cores[place].append(cpu)
    members = [cores[place] for place in sorted(cores, key=lambda place: place.core)]
    pairs = [sorted(one + other) for one, other in zip(members[::2], members[1::2], strict=False)]
    known = identify(description).family == "knights" and len(members) <= KNIGHTS_CORES
    if not known or len(members) % 2 or not _within_nodes(description, map(tuple, pairs)):
        return []
    description.notes.append(
        "numactl tells nothing of caches, but every Xeon Phi has tiles of two cores on one L2 "
        "cache; that these are neighbours is how Linux numbers them"
    )
    return [Cache(2, "unified", KNIGHTS_L2_BYTES, 64, tuple(pair)) for pair in pairs]


def _cores(
    description: Description, words: CoreWords, cpus: Sequence[int]
) -> list[tuple[int, ...]]:
    told = words.threads_per_core
    if told is not None:
        return _cores_of(description, words, told, cpus, f"{words.source} tells")
    nodes = (
        [] if shared_cpus(description) else [f.cpus for f in description.nodes.values() if f.cpus]
    )
    if nodes and (pattern := _threads_by_runs(nodes)) > 1:
        told_by = "concluded from the numbers of the cpus, which repeat in every node; lscpu knows"
        return _cores_of(description, words, pattern, cpus, told_by)
    if identify(description).family == "knights" and len(cpus) > KNIGHTS_CORES:
        least = 2 if len(cpus) <= 2 * KNIGHTS_CORES else 4
        told_by = f"concluded from {len(cpus)} cpus, as no Xeon Phi has over {KNIGHTS_CORES} cores"
        return _cores_of(description, words, least, cpus, told_by)
    description.notes.append(
        "nothing tells which cpus are hardware threads of one core: each counts as a core (add "
        "the output of lscpu to the text)"
    )
    return [(cpu,) for cpu in cpus]


def _cores_of(
    description: Description, words: CoreWords, threads: int, cpus: Sequence[int], told_by: str
) -> list[tuple[int, ...]]:
    """The cores if each has so many threads, numbered in one of Linux's two ways."""
    if threads == 1:
        return [(cpu,) for cpu in cpus]
    count = len(cpus) // threads
    apart = [tuple(cpus[first::count]) for first in range(count)] if count else []
    together = [tuple(cpus[at : at + threads]) for at in range(0, len(cpus), threads)]
    for cores in (together, apart) if words.adjacent else (apart, together):
        if count * threads == len(cpus) and _within_nodes(description, cores):
            numbers = ", ".join(map(str, cores[0]))
            description.notes.append(
                f"{threads} threads per core: {told_by}; that cpus {numbers} are one core, and so "
                "on, is how Linux numbers them"
            )
            return cores
    description.notes.append(
        f"{threads} threads per core ({told_by}) do not fit the cpus that the nodes list: each "
        "cpu counts as a core"
    )
    return [(cpu,) for cpu in cpus]


def _within_nodes(description: Description, cores: Iterable[tuple[int, ...]]) -> bool:
    node_of = homes_of_cpus(description)
    return all(len({node_of[cpu] for cpu in core}) == 1 for core in cores)


def _threads_by_runs(nodes: Sequence[tuple[int, ...]]) -> int:
    """Threads per core if every node has the same number of equal runs, equally far apart; else 1.

    The runs of node 0 in ``0-17,68-85,136-153,204-221`` are those of four threads of 18 cores.
    """
    runs = [_runs(cpus) for cpus in nodes]
    threads, total = len(runs[0]), sum(map(len, nodes))
    stride, rest = divmod(total, threads)
    fits = not rest and all(
        len(own) == threads
        and [first - own[0][0] for first, _ in own] == [stride * t for t in range(threads)]
        and len({length for _, length in own}) == 1
        for own in runs
    )
    # Runs of one cpu are packages that take turns: 0,2,4,6 and 1,3,5,7.
    dealt_out = any(length == 1 for own in runs for _, length in own)
    return threads if fits and not dealt_out and threads in THREADS_PER_CORE else 1


def _runs(cpus: Sequence[int]) -> list[tuple[int, int]]:
    """First cpu and length of each run of consecutive cpus."""
    runs: list[tuple[int, int]] = []
    for cpu in cpus:
        if runs and cpu == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((cpu, 1))
    return runs


def _packages(description: Description, words: CoreWords, cores: int) -> dict[int, int]:
    """The package of each node with cpus."""
    nodes = [node for node, facts in sorted(description.nodes.items()) if facts.cpus]
    told = words.packages
    if told is None and words.cores_per_package and cores % words.cores_per_package == 0:
        told = cores // words.cores_per_package
    if told == 1 or len(nodes) == 1 or identify(description).family == "knights":
        return dict.fromkeys(nodes, 0)
    limits = sorted({description.distances.get((a, b), 0) for a in nodes for b in nodes if a != b})
    if told is not None:
        for limit in (0, *(known + 1 for known in limits)):
            groups = _closer_than(description, nodes, limit)
            if len(set(groups.values())) == told:
                return groups
        if len(nodes) % told == 0:
            return _in_order(description, words, nodes, told)
    if limits[0] == 0:
        description.notes.append("nothing tells the packages: all cores count as one package's")
        return dict.fromkeys(nodes, 0)
    groups = _closer_than(description, nodes, SAME_PACKAGE_BELOW)
    count = len(set(groups.values()))
    many = "package" if count == 1 else "packages"
    description.notes.append(
        f"{count} {many}: concluded from distances, as firmware keeps the "
        f"nodes of one package closer than {SAME_PACKAGE_BELOW}; lscpu knows"
    )
    return groups


def _in_order(
    description: Description, words: CoreWords, nodes: Sequence[int], packages: int
) -> dict[int, int]:
    """As many packages of equally many nodes, by the numbers of their cpus."""
    by_cpus = sorted(nodes, key=lambda node: description.nodes[node].cpus)
    description.notes.append(
        f"{packages} packages: {words.source} tells, but not which nodes are whose; that the "
        "first cpus are those of the first package is how Linux numbers them"
    )
    return {node: at * packages // len(nodes) for at, node in enumerate(by_cpus)}


def _closer_than(description: Description, nodes: Sequence[int], limit: int) -> dict[int, int]:
    """Nodes in groups, numbered from 0, so that those closer than `limit` are in the same."""
    group_of: dict[int, int] = {}
    for node in nodes:
        close = [
            group_of[other]
            for other in group_of
            if description.distances.get((node, other), limit) < limit
        ]
        joined = min(close, default=len(set(group_of.values())))
        group_of = {other: joined if g in close else g for other, g in group_of.items()}
        group_of[node] = joined
    numbers = {group: number for number, group in enumerate(dict.fromkeys(group_of.values()))}
    return {node: numbers[group] for node, group in group_of.items()}
