"""The memories that workers may use: which are near which cores, and the order in which they fill.

Linux has for every NUMA node a list of all nodes, nearest first. It takes a page from the first
node of that list that has room and that policy and cpuset allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from affinity.errors import PlacementError
from affinity.placement.plan import KernelMode, WantedKind
from affinity.placement.wording import by_whom, numbered
from affinity.topology import NumaNode, Topology

if TYPE_CHECKING:
    from affinity.process.allowed import AllowedResources


class Memories:
    """The NUMA nodes that hold memory and are allowed: `ids`, ascending.

    `unsized` are those of them of which it is not known how much they hold.
    Raises PlacementError if there are none.
    """

    def __init__(self, topology: Topology, allowed: AllowedResources) -> None:
        self.topology, self.allowed = topology, allowed
        nodes = topology.numa_nodes
        holding = [node.id for node in nodes if node.memory_bytes or not node.size_told]
        # Where no source tells of any memory, the nodes with cpus surely have some.
        self.existing = frozenset(holding or [node.id for node in nodes if node.cpus])
        mems = self.existing if allowed.mems is None else self.existing.intersection(allowed.mems)
        if not mems:
            raise PlacementError(
                f"no memory may be used: allowed is {numbered('node', allowed.mems or ())}"
                f"{by_whom(allowed)}, but memory is on {numbered('node', self.existing)}: "
                "widen cpuset.mems"
            )
        self.ids = tuple(sorted(mems))
        self.unsized = tuple(id_ for id_ in self.ids if not topology.node(id_).memory_bytes)
        self._position = {node.id: at for at, node in enumerate(topology.numa_nodes)}
        self._lists: dict[int, tuple[int, ...]] = {}
        self._packages: defaultdict[int, set[int]] = defaultdict(set)
        for core in topology.cores:
            self._packages[core.numa_node].add(core.package)

    def hbm(self, own: Iterable[int]) -> tuple[int, ...]:
        """HBM near the cores on the nodes `own`, with or without cpus."""
        return tuple(node.id for node in self._near(own) if node.kind == "hbm")

    def dram(self, own: Sequence[int]) -> tuple[int, ...]:
        """The DRAM of the cores on the nodes `own`, or else the nearest; nothing if there is none.

        Memory of unknown kind counts if it has cpus, as main memory has.
        """
        near = tuple(node.id for node in self._near(own) if _is_main(node))
        others = tuple(
            other for other in self.order_from(own[0]) if _is_main(self.topology.node(other))
        )
        return tuple(node for node in near if node in own) or near or others[:1]

    def hidden(self, own: Iterable[int], kinds: Iterable[WantedKind]) -> tuple[int, ...]:
        """HBM or DRAM near the cores on the nodes `own` that is there, but may not be used."""
        wanted = frozenset(kinds)
        return tuple(
            node.id
            for node in self.topology.memory_near(own)
            if ("dram" if _is_main(node) else node.kind) in wanted
            if node.id in self.existing.difference(self.ids)
        )

    def free(self) -> dict[int, int]:
        """Free bytes of each node."""
        return {node: self.topology.node(node).free_bytes for node in self.ids}

    def reclaimable(self) -> dict[int, int]:
        """Bytes of clean file pages on each node.

        The kernel drops these for who may use no other node, or when all are full, and then before
        it kills. Who only prefers a node is sent to the next one first (mm/page_alloc.c).
        """
        return {node: self.topology.node(node).reclaimable_bytes for node in self.ids}

    def free_or_reclaimable(self) -> dict[int, int]:
        """Bytes of each node for who may use no other."""
        reclaimable = self.reclaimable()
        return {node: free + reclaimable[node] for node, free in self.free().items()}

    def order(
        self, mode: KernelMode, nodes: tuple[int, ...], own: Iterable[int]
    ) -> tuple[int, ...]:
        """How nodes fill for a process with cores on the nodes `own`, first to last."""
        orders = [self.order_on(mode, nodes, node) for node in own]
        stages = (node for stage in zip_longest(*orders) for node in stage if node is not None)
        return tuple(dict.fromkeys(stages))

    def order_on(self, mode: KernelMode, nodes: tuple[int, ...], node: int) -> tuple[int, ...]:
        """How nodes fill for a thread on NUMA node `node` under a policy.

        One preferred node brings its own list along; several are searched from the thread's node,
        and what they cannot hold follows the list of that node.
        """
        if mode == "default":
            return self.order_from(node)
        if mode == "preferred":
            return self.order_from(nodes[0])
        first = tuple(other for other in self.order_from(node) if other in nodes)
        return first if mode == "bind" else tuple(dict.fromkeys((*first, *self.order_from(node))))

    def order_from(self, start: int) -> tuple[int, ...]:
        """Linux's list of node `start`: itself, then by distance (mm/page_alloc.c).

        Of two nodes equally far those without cpus come first, and those with higher ids: the
        kernel's find_next_best_node. Without distances: what shares its cores, its package, DRAM.
        """
        if start not in self._lists:
            self._lists[start] = tuple(
                sorted(
                    self.ids, key=lambda other: (other != start, *self._remoteness(start, other))
                )
            )
        return self._lists[start]

    def _remoteness(self, start: int, other: int) -> tuple[int, int, int]:
        node = self.topology.node(other)
        if distances := self.topology.distances:
            distance = distances[self._position[start]][self._position[other]]
            return distance + (other < start) + bool(node.cpus), other, 0
        home = self.topology.node(start)
        shared = self._packages_of(home).intersection(self._packages_of(node))
        step = 0 if set(home.near) & set(node.near) else 1 if shared else 2
        return step, node.kind != "dram", other

    def _packages_of(self, node: NumaNode) -> set[int]:
        return {package for near in (node.near or (node.id,)) for package in self._packages[near]}

    def _near(self, own: Iterable[int]) -> Iterator[NumaNode]:
        return (node for node in self.topology.memory_near(own) if node.id in self.ids)


def _is_main(node: NumaNode) -> bool:
    return node.kind == "dram" or (node.kind == "unknown" and bool(node.cpus))
