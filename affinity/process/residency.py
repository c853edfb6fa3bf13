"""On which NUMA nodes memory really is: some bytes by move_pages(2), a process by numa_maps."""

from __future__ import annotations

import ctypes
import errno
import mmap
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from affinity.errors import MemoryPolicyError
from affinity.process import kernel_call

_PAGES_PER_CALL = 1 << 15
_SHARED_FILES = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/dev/hugepages/")
_PRIVATE_HUGE = "/anon_hugepage"


class NodeMapping(NamedTuple):
    """One mapping as ``numa_maps`` shows it: `bytes_by_node` of what is in memory.

    `anonymous_bytes` of them are private to the process; `file` is empty where there is none.
    `hugetlb`: the pages come from the pool of huge pages that is set aside.
    """

    address: int
    policy: str
    file: str
    hugetlb: bool
    anonymous_bytes: int
    bytes_by_node: dict[int, int]

    @property
    def private(self) -> bool:
        """Whether it is memory of the process alone."""
        return not self.file or self.file.startswith(_PRIVATE_HUGE)

    @property
    def shared(self) -> bool:
        """Whether it is a segment that other processes may map as well."""
        return self.file.startswith(_SHARED_FILES)


@dataclass(frozen=True, slots=True)
class Residency:
    """Bytes of a process on each NUMA node, touched pages only.

    `anonymous` is its own memory, `shared` segments (memfd, /dev/shm) as far as it has touched
    them, `file` programs, libraries and other files in the page cache.
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
    addresses = range(first, address + size, mmap.PAGESIZE)
    for start in range(0, len(addresses), _PAGES_PER_CALL):
        counts.update(_nodes_of(addresses[start : start + _PAGES_PER_CALL]))
    return dict(sorted(counts.items()))


def process_residency(pid: int | str = "self") -> Residency | None:
    """Where all the memory of a process is, or None where the kernel does not tell.

    The kernel looks at every page: some milliseconds for each GiB.
    """
    try:
        return residency_of(node_mappings(pid))
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return None


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
    address, policy, *words = line.split()
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    page_bytes = int(fields.get("kernelpagesize_kB", mmap.PAGESIZE // 1024)) * 1024
    pages = {int(k[1:]): int(v) for k, v in fields.items() if k[0] == "N" and k[1:].isdigit()}
    return NodeMapping(
        int(address, 16),
        policy,
        fields.get("file", ""),
        "huge" in words,
        int(fields.get("anon", 0)) * page_bytes,
        {node: count * page_bytes for node, count in pages.items()},
    )


def residency_of(mappings: Iterable[NodeMapping]) -> Residency:
    """The sums over `mappings`.

    Of a private mapping of a file (a library's data) the kernel does not tell on which node its
    changed pages are: they are taken to be spread as the whole mapping is.
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
                own = size * min(mapping.anonymous_bytes, total) // total
                anonymous[node] += own
                file[node] += size - own
    return Residency(*(dict(sorted(sums.items())) for sums in (anonymous, shared, file)))


def _nodes_of(addresses: range) -> Iterator[int]:
    count = len(addresses)
    pages = (ctypes.c_ulong * count).from_buffer(array("L", addresses))
    status = (ctypes.c_int * count)()
    try:
        kernel_call.kernel_call("move_pages", 0, count, pages, None, status, 0)
    except OSError as error:
        raise MemoryPolicyError(
            f"the kernel does not tell where {count} pages from {addresses.start:#x} on are: "
            f"{error.strerror}; /proc/self/numa_maps may still tell",
            error.errno or 0,
        ) from None
    if -errno.EACCES in status:
        raise MemoryPolicyError("some of these pages may not be looked at", errno.EACCES)
    return (node if node >= 0 else -1 for node in status)
