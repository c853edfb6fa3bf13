"""Brings memory back under its process's policy where a library has set one of its own.

OpenBLAS asks for its buffers to be "local": near the cpu that touches them, so beside HBM and not
in it, whatever the policy of the process is.
"""

from __future__ import annotations

from collections.abc import Iterator

from affinity.errors import MemoryPolicyError
from affinity.placement.plan import MemoryPlan
from affinity.process.memory_policy import bind_memory
from affinity.process.node_of_pages import mapping_ends
from affinity.process.residency import node_mappings


def bring_back(memory: MemoryPlan) -> int:
    """Put this memory under the policy of the process's placement, and move its touched pages.

    Returns the bytes of these mappings; 0 where the placement has no policy, or the kernel does not
    tell. Pages that cannot be moved stay: see the proof of the placement.
    """
    if memory.mode == "default":
        return 0
    moved = 0
    try:
        for start, end in list(_local_mappings()):
            bind_memory(start, end - start, memory.mode, memory.nodes, move=True)
            moved += end - start
    except (OSError, MemoryPolicyError):
        return moved
    return moved


def _local_mappings() -> Iterator[tuple[int, int]]:
    ends = mapping_ends()
    for mapping in node_mappings():
        # Shared memory stays where its creator put it.
        if not mapping.file and mapping.policy.mode == "local" and mapping.address in ends:
            yield mapping.address, ends[mapping.address]
