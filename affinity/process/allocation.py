"""Allocates memory with its own policy, in huge pages where there are any.

    weights = allocate(size, "bind", (2,)).buffer

is all in node 2, and ``numpy.frombuffer`` makes arrays of it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from affinity.errors import MemoryPolicyError
from affinity.placement import wording
from affinity.process.mapping import address_of, bind_buffer, check_pool, check_room, pool_too_small
from affinity.process.memory_policy import AppliedPolicy, as_far_as_possible
from affinity.process.node_memory import (
    free_huge_pages,
    huge_page_bytes,
    transparent_huge_page_bytes,
)

HugePagesWish: TypeAlias = Literal["advise", "never", "hugetlb"]
"""advise: transparent huge pages if the kernel has them; hugetlb: from the pool set aside, only."""

_MAP_HUGETLB = 0x40000


@dataclass(frozen=True, slots=True)
class Allocation:
    """New memory: `buffer` of zero bytes at `address`, and the policy it is under.

    It lasts as long as `buffer`, or an object made on it, is referred to. `notes` say which
    requests could not be fulfilled.
    """

    buffer: memoryview
    address: int
    policy: AppliedPolicy
    notes: tuple[str, ...]


def allocate(
    size: int,
    mode: str = "default",
    nodes: Iterable[int] = (),
    huge: HugePagesWish = "advise",
    required: bool = False,
) -> Allocation:
    """Reserve `size` bytes under a policy of their own, untouched, at a page's start.

    Raises MemoryPolicyError if the nodes of a ``bind`` have less than that (the kernel would kill
    the process), if the pool of huge pages has, if a node may not be used, and, if `required`,
    where policies are forbidden.
    """
    given = tuple(nodes)
    if size < 1:
        raise MemoryPolicyError(f"cannot allocate {size} bytes: one byte or more was expected")
    if huge == "hugetlb":
        whole, notes = _from_pool(size, mode, given)
    else:
        if mode == "bind":
            check_room(size, given)
        whole, notes = _from_pages(size, huge)
    policy = as_far_as_possible(partial(bind_buffer, whole, False), mode, given, required)
    return Allocation(whole[:size], address_of(whole), policy, (*notes, *policy.notes))


def _from_pages(size: int, huge: HugePagesWish) -> tuple[memoryview, tuple[str, ...]]:
    unit = transparent_huge_page_bytes()
    # Only whole huge pages at their own multiples can be had; what lies before is never touched.
    spare = unit if huge == "advise" and size >= unit else 0
    mapping = _map(size + spare, 0)
    buffer = memoryview(mapping)
    offset = -address_of(buffer) % spare if spare else 0
    if huge == "never":
        with suppress(OSError):  # A kernel without huge pages makes none.
            mapping.madvise(mmap.MADV_NOHUGEPAGE)
    elif spare:
        mapping.madvise(mmap.MADV_HUGEPAGE)
    elif not unit:
        note = "no transparent huge pages: the kernel has none, or they are switched off"
        return buffer[offset : offset + size], (note,)
    return buffer[offset : offset + size], ()


def _from_pool(size: int, mode: str, nodes: tuple[int, ...]) -> tuple[memoryview, tuple[str, ...]]:
    if mode == "bind":
        check_pool(size, nodes)
    unit = huge_page_bytes()
    free = sum(map(free_huge_pages, nodes))
    pages = -(-size // unit) if unit else 0
    try:
        mapping = _map(pages * unit, _MAP_HUGETLB)
    except (OSError, ValueError):
        raise pool_too_small(pages, free, nodes) from None
    buffer = memoryview(mapping)  # All of it: the kernel refuses a policy for parts of huge pages.
    if not nodes or free >= pages:
        return buffer, ()
    where = wording.numbered("node", nodes)
    return buffer, (f"the pool of {where} has {free} of the {pages} huge pages, others the rest",)


def _map(size: int, flags: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
