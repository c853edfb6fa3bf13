"""Which ranks share a node: found by the ranks themselves, written in the format of PMI."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from knltrain.communication.mpi.process_manager import LONGEST_VALUE
from knltrain.errors import CollectiveError

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES = ("net", "pid")
_SHARED_MEMORY = Path("/dev/shm")


def this_node() -> str:
    """Return a text that is equal for exactly those processes that can share memory.

    It is made of the computer's boot, the namespaces of network and process ids, and the file
    system of shared memory. So containers of one computer are nodes of their own.
    """
    namespaces = [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in _NAMESPACES]
    found = _SHARED_MEMORY.stat()
    boot = _BOOT.read_text(encoding="ascii").strip()
    return " ".join([boot, *namespaces, f"shm:{found.st_dev}:{found.st_ino}"])


def process_mapping(nodes: Sequence[str]) -> str:
    """Return the mapping of ranks, given the node of each, as `(vector,(0,2,4))`.

    A block (first node, number of nodes, ranks on each) stands for consecutive ranks. Raises
    CollectiveError if it takes more blocks than a library can read.
    """
    numbers = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
    blocks: list[tuple[int, int, int]] = []
    for node, ranks in itertools.groupby(nodes):
        number, count = numbers[node], len(list(ranks))
        first, length, size = blocks[-1] if blocks else (0, 0, 0)
        if size == count and first + length == number:
            blocks[-1] = (first, length + 1, size)
        else:
            blocks.append((number, 1, count))
    mapping = f"(vector,{','.join(f'({a},{b},{c})' for a, b, c in blocks)})"
    if len(mapping) >= LONGEST_VALUE:
        raise CollectiveError(
            f"{len(nodes)} ranks on {len(numbers)} nodes in {len(blocks)} blocks: expected ranks "
            "of a node in a row, and as many on each, for MPI to read which of them share a node"
        )
    return mapping
