"""Groups cores with their local memories and GPUs, for text and pictures."""

from __future__ import annotations

from dataclasses import dataclass

from affinity.topology import Core, Gpu, NumaNode, Topology


@dataclass(frozen=True, slots=True)
class Home:
    """The cores of one NUMA node in one package, the memories that are theirs alone, and GPUs."""

    package: int
    node: int
    cores: tuple[Core, ...]
    memories: tuple[NumaNode, ...]
    gpus: tuple[Gpu, ...] = ()


def homes(topology: Topology) -> tuple[Home, ...]:
    """All homes by package and node; what is next to cores in two packages is in the first."""
    cores: dict[tuple[int, int], list[Core]] = {}
    for core in topology.cores:
        cores.setdefault((core.package, core.numa_node), []).append(core)
    found: list[Home] = []
    shown: set[int] = set()
    for package, node in sorted(cores):
        first = node not in shown
        shown.add(node)
        memories = _own_memories(topology, node) if first else []
        gpus = [gpu for gpu in topology.gpus if gpu.numa_node == node] if first else []
        own = tuple(cores[package, node])
        found.append(Home(package, node, own, tuple(memories), tuple(gpus)))
    return tuple(found)


def shared_memories(topology: Topology) -> tuple[NumaNode, ...]:
    """Memories that are near the cores of several nodes, or of none."""
    return tuple(node for node in _memories(topology) if len(node.near) != 1)


def _own_memories(topology: Topology, node: int) -> list[NumaNode]:
    return [memory for memory in _memories(topology) if memory.near == (node,)]


def _memories(topology: Topology) -> list[NumaNode]:
    """Nodes with memory, also of a size that nothing tells; other nodes have cores alone."""
    return [node for node in topology.numa_nodes if node.memory_bytes or not node.size_told]
