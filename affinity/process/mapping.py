"""Sets the policy of existing mappings (mmap, memfd, /dev/shm) on NUMA nodes, and touches them.

A mapping's policy decides where its pages go at the first touch, by whichever thread, whatever the
policy of that thread. The policy of shared memory belongs to the object: its creator sets it once,
and it holds in all processes that map it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from affinity.errors import MemoryPolicyError
from affinity.numbers import format_bytes
from affinity.placement import wording
from affinity.process import kernel_call
from affinity.process.memory_policy import (
    AppliedPolicy,
    as_far_as_possible,
    bind_memory,
)
from affinity.process.node_memory import (
    free_bytes,
    free_huge_pages,
    huge_page_bytes,
    huge_page_pool,
)
from affinity.process.residency import mapping_at, pages_by_node

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MADV_POPULATE_WRITE = 23


def place_mapping(
    buffer: WriteableBuffer,
    mode: str,
    nodes: Iterable[int] = (),
    move: bool = False,
    required: bool = False,
) -> AppliedPolicy:
    """Put existing memory (mmap, memfd, shared memory) under a policy, as its creator.

    Touched pages stay, unless `move`: it moves those that this process alone has touched. Raises
    MemoryPolicyError

    - if the nodes of a ``bind`` have too little left, in their pool for memory of huge pages from
      there (the kernel would kill the process);
    - if `buffer` does not start at a page, or a node may not be used;
    - if `required`, where policies are forbidden.
    """
    given, around = tuple(nodes), mapping_at(address_of(buffer))
    from_pool = around is not None and around.hugetlb
    if mode == "bind":
        missing = _bytes_elsewhere(buffer, given)
        (check_pool if from_pool else check_room)(missing, given)
    applied = as_far_as_possible(partial(bind_buffer, buffer, move), mode, given, required)
    if not from_pool or around is None or around.private:
        return applied
    note = (
        "the policy of shared memory in hugetlb pages holds in this process only: touch all of "
        "it here, now, or let each process place its own mapping before it touches any"
    )
    return applied._replace(notes=(*applied.notes, note))


def touch(buffer: WriteableBuffer) -> None:
    """Bring in all the pages of a buffer now, as its policy says; what it holds does not change.

    To be called by a thread on the cpus that will use the memory, where the policy leaves the
    node to them. Raises MemoryPolicyError if there are not enough huge pages in the pool.
    """
    address, size = address_of(buffer), memoryview(buffer).nbytes
    start = address - address % mmap.PAGESIZE
    try:
        kernel_call.kernel_call("madvise", start, address + size - start, _MADV_POPULATE_WRITE)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EPERM, errno.ENOSYS):
            raise MemoryPolicyError(
                f"{size} bytes at {address:#x} cannot be brought in: {error.strerror}; their nodes "
                "have not enough memory, or their pool not enough huge pages",
                error.errno or 0,
            ) from None
        view = memoryview(buffer).cast("B")  # Before Linux 5.14.
        view[:: mmap.PAGESIZE] = view[:: mmap.PAGESIZE].tobytes()


def check_room(missing: int, nodes: Iterable[int]) -> None:
    """Raise MemoryPolicyError if `nodes` together have fewer than `missing` bytes left.

    To be called before pages are bound: the kernel kills a process whose nodes are full.
    """
    left = {node: free_bytes(node) for node in nodes}
    if missing > sum(left.values()):
        each = wording.listed(
            f"node {node} has {format_bytes(free)}" for node, free in left.items()
        )
        raise MemoryPolicyError(
            f"{format_bytes(missing)} do not fit: {each} left, and the kernel would kill this "
            "process for it; ask for less, or for mode preferred, which spills into other nodes",
            errno.ENOMEM,
        )


def check_pool(missing: int, nodes: Sequence[int]) -> None:
    """Raise MemoryPolicyError if `nodes` together have too few huge pages for `missing` bytes."""
    unit = huge_page_bytes()
    pages, free = -(-missing // unit) if unit else 0, sum(map(free_huge_pages, nodes))
    if pages > free or not unit:
        raise pool_too_small(pages, free, nodes)


def pool_too_small(pages: int, free: int, nodes: Sequence[int]) -> MemoryPolicyError:
    """The error for a pool that cannot give so many huge pages, with the way to make it larger."""
    where = wording.numbered("node", nodes) if nodes else "this machine"
    return MemoryPolicyError(
        f"{pages} huge pages of {format_bytes(huge_page_bytes())} were asked for, but the pool of "
        f"{where} has {free} to give: let root write how many it is to have into "
        f"{huge_page_pool(nodes[0] if nodes else 0) / 'nr_hugepages'}, or ask for huge='advise'",
        errno.ENOMEM,
    )


def bind_buffer(buffer: WriteableBuffer, move: bool, mode: str, nodes: tuple[int, ...]) -> None:
    """As `bind_memory`, for all of a buffer."""
    bind_memory(address_of(buffer), memoryview(buffer).nbytes, mode, nodes, move)


def address_of(buffer: WriteableBuffer) -> int:
    """Where the buffer's memory starts in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _bytes_elsewhere(buffer: WriteableBuffer, nodes: tuple[int, ...]) -> int:
    try:
        pages = pages_by_node(address_of(buffer), memoryview(buffer).nbytes)
    except MemoryPolicyError:
        return memoryview(buffer).nbytes
    return mmap.PAGESIZE * sum(count for node, count in pages.items() if node not in nodes)
