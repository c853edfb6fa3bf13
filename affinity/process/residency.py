"""NUMA nodes on which memory really is: single buffers by move_pages(2), a process by numa_maps."""

from __future__ import annotations

import mmap
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from affinity.cpulist import parse_cpulist
from affinity.errors import MemoryPolicyError
from affinity.process.node_of_pages import changed_bytes_by_node, mapping_ends, nodes_of
from affinity.process.policy import Policy

_SHARED_FILES = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/dev/hugepages/")
_PRIVATE_HUGE = "/anon_hugepage"

_POLICY = re.compile(
    r"\S+ (prefer \(many\)|weighted interleave|[^\s=:]+)(?:=[\w|]+)?(?::([\d,-]+))?"
)
_MODE_OF = {
    "prefer": "preferred",
    "prefer (many)": "preferred-many",
    "weighted interleave": "weighted-interleave",
}
"""How ``numa_maps`` calls modes, where that differs from us (mpol_to_str in mm/mempolicy.c)."""


class NodeMapping(NamedTuple):
    """One mapping as ``numa_maps`` shows it: `bytes_by_node` of what is in memory.

    `anonymous_bytes` of them are private to the process; `file` is empty where there is none.
    `hugetlb`: the pages come from the pool of huge pages that is set aside. `changed_by_node` is
    where the anonymous ones among the pages of a file are, None if that is not known.
    `stack` is the main thread's, whose policy is that of the thread.
    """

    address: int
    file: str
    hugetlb: bool
    anonymous_bytes: int
    bytes_by_node: dict[int, int]
    changed_by_node: dict[int, int] | None = None
    policy_words: tuple[str, str] = ("default", "")
    stack: bool = False

    @property
    def policy(self) -> Policy:
        """What the pages that are still to come are under."""
        mode, nodes = self.policy_words
        return Policy(_MODE_OF.get(mode, mode), parse_cpulist(nodes))

    @property
    def private(self) -> bool:
        """Whether it is memory of the process alone."""
        return not self.file or self.file.startswith(_PRIVATE_HUGE)

    @property
    def shared(self) -> bool:
        """Whether it is memory that other processes may map as well."""
        return self.file.startswith(_SHARED_FILES)


@dataclass(frozen=True, slots=True)
class Residency:
    """Bytes of a process on each NUMA node, touched pages only.

    `anonymous` is its own memory, `shared` is shared memory (memfd, /dev/shm) as far as it has
    touched it, `file` is programs, libraries and other files in the page cache.
    """

    anonymous: dict[int, int] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)
    file: dict[int, int] = field(default_factory=dict)

    def on(self, nodes: Iterable[int]) -> int:
        """Bytes of its own and shared memory on `nodes`."""
        return sum(self.anonymous.get(node, 0) + self.shared.get(node, 0) for node in set(nodes))


def pages_by_node(address: int, size: int) -> dict[int, int]:
    """How many of the pages from `address` on for `size` bytes are on each node; untouched: -1.

    Pages as processors count them (4 KiB on x86-64), also within huge ones. Untouched are also
    pages that only other processes have touched, and those that were only read: they are the one
    page of zeros that all share.
    Raises MemoryPolicyError where the kernel does not tell, or the memory is not mapped.
    """
    counts: Counter[int] = Counter()
    first = address - address % mmap.PAGESIZE
    counts.update(nodes_of(range(first, address + size, mmap.PAGESIZE)))
    return dict(sorted(counts.items()))


def process_residency(pid: int | str = "self") -> Residency | None:
    """Where all the memory of a process is, or None where the kernel does not tell.

    The kernel looks at every page: some milliseconds for each GiB.
    """
    try:
        return residency_of(located_mappings(pid))
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return None


def located_mappings(pid: int | str = "self") -> list[NodeMapping]:
    """All mappings of a process, the changed pages of files with the nodes that they are on.

    Costs what `process_residency` costs. OSError where the kernel does not tell.
    """
    ends = mapping_ends(pid)
    return [_with_changed(mapping, ends, pid) for mapping in node_mappings(pid)]


def stack_policy(mappings: Iterable[NodeMapping]) -> Policy | None:
    """The policy of a process's main thread; None if its stack is not among the mappings."""
    return next((mapping.policy for mapping in mappings if mapping.stack), None)


def node_mappings(pid: int | str = "self") -> Iterator[NodeMapping]:
    """The lines of ``/proc/PID/numa_maps``; OSError where there is no such file."""
    with Path(f"/proc/{pid}/numa_maps").open(encoding="utf-8", errors="replace") as lines:
        yield from map(parse_mapping, lines)


def mapping_at(address: int) -> NodeMapping | None:
    """The mapping of this process that `address` is in, or None where the kernel does not tell."""
    found = None
    try:
        # The kernel looks at the pages of each line that is read, so none beyond is.
        for mapping in node_mappings():
            if mapping.address > address:
                break
            found = mapping
    except OSError:
        return None
    return found


def parse_mapping(line: str) -> NodeMapping:
    """Read one line of ``numa_maps``, whose order of words differs between kernels."""
    address, *words = line.split()
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    page_bytes = int(fields.get("kernelpagesize_kB", mmap.PAGESIZE // 1024)) * 1024
    pages = {int(k[1:]): int(v) for k, v in fields.items() if k[0] == "N" and k[1:].isdigit()}
    policy = _POLICY.match(line)
    return NodeMapping(
        int(address, 16),
        fields.get("file", ""),
        "huge" in words,
        int(fields.get("anon", 0)) * page_bytes,
        {node: count * page_bytes for node, count in pages.items()},
        policy_words=(policy[1], policy[2] or "") if policy else ("default", ""),
        stack="stack" in words,
    )


def residency_of(mappings: Iterable[NodeMapping]) -> Residency:
    """The sums over `mappings`.

    Where it is not known on which nodes the changed pages of a file (a library's data) are, they
    are taken to be spread as its whole mapping is.
    """
    anonymous: Counter[int] = Counter()
    shared: Counter[int] = Counter()
    file: Counter[int] = Counter()
    for mapping in mappings:
        total = sum(mapping.bytes_by_node.values())
        for node, size in mapping.bytes_by_node.items():
            if mapping.shared:
                shared[node] += size
            elif mapping.private:
                anonymous[node] += size
            else:
                own = _own_bytes(mapping, node, size, total)
                anonymous[node] += own
                file[node] += size - own
    return Residency(*(dict(sorted(sums.items())) for sums in (anonymous, shared, file)))


def _own_bytes(mapping: NodeMapping, node: int, size: int, total: int) -> int:
    if mapping.changed_by_node is None:
        return size * min(mapping.anonymous_bytes, total) // total
    return min(size, mapping.changed_by_node.get(node, 0))


def _with_changed(mapping: NodeMapping, ends: Mapping[int, int], pid: int | str) -> NodeMapping:
    end = ends.get(mapping.address)
    mixed = mapping.file and mapping.anonymous_bytes and len(mapping.bytes_by_node) > 1
    if mapping.private or mapping.shared or not mixed or end is None:
        return mapping
    try:
        return mapping._replace(changed_by_node=changed_bytes_by_node(mapping.address, end, pid))
    except (OSError, MemoryPolicyError):
        return mapping
