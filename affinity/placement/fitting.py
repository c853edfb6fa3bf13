"""Computes where the workers' memory ends up, and the warnings that follow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from affinity.numbers import format_bytes
from affinity.placement.memories import Memories
from affinity.placement.memory import Aim, Part
from affinity.placement.plan import Placement, Request
from affinity.placement.wording import counted, listed, named


@dataclass(frozen=True, slots=True)
class Demand:
    """So many bytes, taken from the nodes in `order` as long as they last."""

    bytes: int
    order: tuple[int, ...]


def fill(demands: Sequence[Demand], free: Mapping[int, int]) -> list[dict[int, int]]:
    """Bytes of each demand by node; bytes without room anywhere are in none.

    Demands on the same node at the same time get equal parts of it, or all they want if that is
    less; then each goes on to its next node.
    """
    room = dict(free)
    placed: list[dict[int, int]] = [{} for _ in demands]
    wanting = [demand.bytes for demand in demands]
    for step in range(max((len(demand.order) for demand in demands), default=0)):
        queues: defaultdict[int, list[int]] = defaultdict(list)
        for number, demand in enumerate(demands):
            if wanting[number] and step < len(demand.order):
                queues[demand.order[step]].append(number)
        for node, queue in queues.items():
            queue.sort(key=lambda number: wanting[number])
            for waiting, number in zip(range(len(queue), 0, -1), queue, strict=True):
                if share := min(wanting[number], room[node] // waiting):
                    placed[number][node] = share
                    room[node] -= share
                    wanting[number] -= share
    return placed


def portions(number: int, weights: Iterable[int]) -> list[int]:
    """Cut a whole number in the ratio of the weights; the parts add up to it exactly."""
    parts: list[int] = []
    ends, total = 0, 0
    amounts = tuple(weights)
    for weight in amounts:
        total += weight
        end = number * total // sum(amounts)
        parts.append(end - ends)
        ends = end
    return parts


Bytes: TypeAlias = Counter[int]
"""Bytes by NUMA node."""


class Filling:
    """The needs of all workers, placed on the nodes: for each rank, part by part."""

    def __init__(self, memories: Memories, seats: Sequence[Placement], aims: Sequence[Aim]) -> None:
        self._memories, self._aims = memories, aims
        node_of = {c: core.numa_node for core in memories.topology.cores for c in core.cpus}
        demands: list[Demand] = []
        self._placed: list[list[Bytes]] = [[Counter() for _ in one.parts] for one in aims]
        labels: list[Bytes] = []
        for seat, one, into in zip(seats, aims, self._placed, strict=True):
            cores = Counter(node_of[core[0]] for core in seat.cores)
            for part, counter in zip(one.parts, into, strict=True):
                new = list(self._demands(part, cores))
                demands += new
                labels += [counter] * len(new)
        for room in (memories.free(), memories.reclaimable()):
            placed = fill(demands, room)
            for counter, new_bytes in zip(labels, placed, strict=True):
                counter.update(new_bytes)
            demands = [
                replace(demand, bytes=demand.bytes - sum(new_bytes.values()))
                for demand, new_bytes in zip(demands, placed, strict=True)
            ]

    def expected(self, rank: int, order: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Bytes of a worker by node, in the order in which they fill."""
        total = _sum(self._placed[rank])
        return tuple((node, total[node]) for node in order if total[node])

    def notes(self, request: Request, *, fits: bool = True) -> list[str]:
        """For the workers with the same target: how much they need there, and what spills where.

        Nothing is said to fit without `fits`, where something else than the nodes sets a limit.
        """
        groups: defaultdict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
        for rank, one in enumerate(self._aims):
            for number, part in enumerate(one.parts):
                if part.bytes:
                    groups[number, part.targets].append(rank)
        fitting: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        others = []
        for (number, targets), ranks in groups.items():
            part = self._aims[ranks[0]].parts[number]
            need = _need_text(part, request, len(ranks))
            wanted = (part.bytes or 0) * len(ranks)
            total = _sum(self._placed[rank][number] for rank in ranks)
            if sum(total[node] for node in targets) < wanted:
                spilled = self._spill_text(targets, total, wanted - sum(total.values()))
                others.append(f"{need}: {spilled}")
            elif not fits:
                continue
            elif len(targets) > 1:
                others.append(f"{need} fit in {self._room(targets, sum, wanted)}")
            else:
                fitting[need, wanted].extend(targets)
        alike = (
            f"{need} fit in {'each of ' if len(nodes) > 1 else ''}"
            f"{self._room(sorted(nodes), min, wanted)}"
            for (need, wanted), nodes in fitting.items()
        )
        return [*alike, *others]

    def _demands(self, part: Part, cores: Counter[int]) -> Iterator[Demand]:
        """Each NUMA node's cores fill their part of the memory, from where they are."""
        for own, number in zip(cores, portions(part.bytes or 0, cores.values()), strict=True):
            order = self._memories.order_on(part.mode, part.nodes, own)
            if part.mode != "weighted-interleave":
                yield Demand(number, order)
                continue
            for node, piece in zip(part.nodes, portions(number, self._weights(part)), strict=True):
                yield Demand(piece, tuple(dict.fromkeys((node, *order))))

    def _weights(self, part: Part) -> list[int]:
        nodes = map(self._memories.topology.node, part.nodes)
        bandwidths = [node.bandwidth_mb_per_second or 0 for node in nodes]
        return bandwidths if all(bandwidths) else [1] * len(bandwidths)

    def _room(
        self, nodes: Sequence[int], which: Callable[[Iterable[int]], int], wanted: int
    ) -> str:
        topology = self._memories.topology
        free = which([topology.node(node).free_bytes for node in nodes])
        whole = which([topology.node(node).memory_bytes for node in nodes])
        cached = ", the rest in place of cached files" if wanted > free else ""
        amounts = f"{format_bytes(free)} free of {format_bytes(whole)}{cached}"
        return f"{named(topology, nodes)} ({amounts})"

    def _spill_text(self, targets: Sequence[int], total: Bytes, missing: int) -> str:
        topology = self._memories.topology
        inside = sum(total[node] for node in targets)
        texts = [f"{format_bytes(inside)} in {named(topology, targets)}"]
        texts += [
            f"{format_bytes(spilled)} spill to {named(topology, (node,))}"
            for node, spilled in total.items()
            if node not in targets
        ]
        if missing:
            nowhere = "find no room at all: swapped, or the worker is killed"
            texts.append(f"{format_bytes(missing)} {nowhere}")
        return listed(texts)


def _sum(counters: Iterable[Bytes]) -> Bytes:
    total: Bytes = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _need_text(part: Part, request: Request, workers: int) -> str:
    """Write ``"4 workers x 3.0 GiB (weights 1.0 GiB + data 2.0 GiB) = 12.0 GiB"``."""
    each = part.bytes or 0
    name = f"{part.name}: " if part.name else ""
    needs = [f"{need.name} {format_bytes(need.bytes or 0)}" for need in request.needs]
    made_of = f" ({' + '.join(needs)})" if not part.name and len(needs) > 1 else ""
    who, total = counted(workers, "worker"), format_bytes(each * workers)
    return f"{name}{who} x {format_bytes(each)}{made_of} = {total}"
