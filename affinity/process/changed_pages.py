"""Private pages of a mapped file: those that a process has changed (copy on write).

Libraries have some: tables that the loader fills in. ``numa_maps`` counts them, and tells on which
nodes the mapping's pages are, but not which of these pages were changed.
"""

from __future__ import annotations

import mmap
from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from affinity.process.node_of_pages import nodes_of

_PRESENT, _OF_A_FILE = 1 << 63, 1 << 61
_BYTES_PER_PAGE = 8


def mapping_ends(pid: int | str = "self") -> dict[int, int]:
    """The address at which each mapping of a process ends, by that at which it begins."""
    with Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as lines:
        ranges = (line.split(maxsplit=1)[0].split("-") for line in lines)
        return {int(start, 16): int(end, 16) for start, end in ranges}


def changed_bytes_by_node(start: int, end: int, pid: int | str = "self") -> dict[int, int]:
    """Bytes on each node of the pages from `start` to `end` that are the process's own by now.

    OSError, or MemoryPolicyError, where the kernel does not tell.
    """
    counts = Counter(nodes_of(list(_changed(start, end, pid)), 0 if pid == "self" else int(pid)))
    return {node: count * mmap.PAGESIZE for node, count in sorted(counts.items()) if node >= 0}


def _changed(start: int, end: int, pid: int | str) -> Iterable[int]:
    first, last = start // mmap.PAGESIZE, end // mmap.PAGESIZE
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        pagemap.seek(first * _BYTES_PER_PAGE)
        words = array("Q", pagemap.read((last - first) * _BYTES_PER_PAGE))
    return (
        (first + page) * mmap.PAGESIZE
        for page, word in enumerate(words)
        if word & _PRESENT and not word & _OF_A_FILE
    )
