"""Samples where threads and pages are while ranks run, for a report at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import final

from affinity.cli.layout import bullets, table
from affinity.cli.observation import Sight, look_at
from affinity.cli.phrases import memory_names
from affinity.cpulist import format_cpulist
from affinity.numbers import format_bytes
from affinity.placement.plan import Plan
from affinity.process.other_process import session_members
from affinity.topology import Topology

FIRST_LOOK_SECONDS = 0.5
"""Processes that have ended by then are not seen."""

_LONGEST_PAUSE_SECONDS = 60.0
_LOOKS_SHARE = 0.05
"""Largest share of the time for sampling, which delays the sampled process."""


@final
class Bystander:
    """Samples the ranks soon after the start, and then more and more rarely.

    The sample with most memory is kept of each rank.
    """

    def __init__(self, topology: Topology, plan: Plan) -> None:
        self._topology = topology
        self._plan = plan
        self._sights: dict[int, Sight] = {}
        self._pause = FIRST_LOOK_SECONDS
        self.next_look = time.monotonic() + self._pause

    def look(self, rank_of: Mapping[int, int]) -> None:
        """Sample the ranks, given by process id, if it is time to."""
        start = time.monotonic()
        if start < self.next_look:
            return
        taken = 0.0
        for leader, members in session_members(rank_of).items():
            rank, before = rank_of[leader], time.monotonic()
            sight = look_at(self._plan.workers[rank], members)
            taken = max(taken, time.monotonic() - before)
            if sight and _total(sight) >= _total(self._sights.get(rank, sight)):
                self._sights[rank] = sight
        if self._sights:  # Until then all are still about to start.
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self.next_look = start + max(self._pause, taken / _LOOKS_SHARE)

    def report(self) -> str:
        """One line for each rank, and below them deviations from the plan."""
        head = ("rank", "cpus", "threads", "memory")
        lines = [self._line(worker.rank) for worker in self._plan.workers]
        problems = [
            f"rank {rank}: {problem}"
            for rank, sight in sorted(self._sights.items())
            for problem in sight.problems
        ]
        return "\n".join((table(head, lines, right=(0, 2)), *bullets(problems)))

    def misplaced(self) -> list[int]:
        """Ranks that were not in their places: see `Sight`."""
        return [rank for rank, sight in sorted(self._sights.items()) if sight.misplaced]

    def unproved(self) -> list[int]:
        """Ranks with policy `strict` that were never sampled."""
        return [
            worker.rank
            for worker in self._plan.workers
            if worker.memory.policy == "strict" and worker.rank not in self._sights
        ]

    def _line(self, rank: int) -> tuple[str, ...]:
        sight = self._sights.get(rank)
        if sight is None:
            return str(rank), "ended before it was looked at", "", ""
        nodes = sorted(sight.bytes_by_node)
        names = memory_names(self._topology, nodes)
        memory = [
            f"{format_bytes(sight.bytes_by_node[node])} in {name}"
            for node, name in zip(nodes, names, strict=True)
        ]
        return str(rank), format_cpulist(sight.cpus), str(sight.threads), ", ".join(memory)


def _total(sight: Sight) -> int:
    return sum(sight.bytes_by_node.values())
