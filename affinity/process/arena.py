"""Named arenas of a worker: parts of its memory that have a placement of their own.

    with arena("data"):
        images = load()

places the pages that this thread touches first. ``allocate_in("weights", size)`` places its buffer
whoever touches it.
"""

from __future__ import annotations

import difflib
import mmap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from affinity.errors import MemoryPolicyError, PlacementError
from affinity.placement import wording
from affinity.placement.plan import Arena
from affinity.process.mapping import address_of, bind_buffer, check_pool, check_room, pool_too_small
from affinity.process.memory_policy import (
    AppliedPolicy,
    apply_memory_policy,
    as_far_as_possible,
    memory_policy,
    set_memory_policy,
)
from affinity.process.node_memory import (
    free_huge_pages,
    huge_page_bytes,
    transparent_huge_page_bytes,
)
from affinity.process.own import own_placement

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


@contextmanager
def arena(name: str) -> Iterator[AppliedPolicy]:
    """Let the calling thread touch new memory where its placement wants the arena `name`.

    For memory that a library allocates. The thread that touches it first counts; memory that the
    library reuses stays where it is. Afterwards the thread has its former policy. Without arenas in
    the placement, or without a placement, nothing changes. Raises PlacementError for a name that
    the placement does not know.
    """
    wanted = _own_arena(name)
    if wanted is None:
        yield AppliedPolicy("default")
        return
    try:
        before = memory_policy()
    except MemoryPolicyError as error:
        yield AppliedPolicy("default", notes=(f"arena {name}: {error}; going on without it",))
        return
    try:
        yield apply_memory_policy(wanted.mode, wanted.nodes)
    finally:
        set_memory_policy(before.mode, before.nodes)


def allocate_in(name: str, size: int, huge: HugePagesWish = "advise") -> Allocation:
    """Reserve memory for the arena `name` of this process's placement, as `allocate` does."""
    wanted = _own_arena(name)
    if wanted is None:
        return allocate(size, huge=huge)
    return allocate(size, wanted.mode, wanted.nodes, huge)


def _own_arena(name: str) -> Arena | None:
    placement = own_placement()
    arenas = {} if placement is None else {arena.name: arena for arena in placement.memory.arenas}
    if name in arenas or not arenas:
        return arenas.get(name)
    close = difflib.get_close_matches(name, arenas, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise PlacementError(
        f"unknown arena {name!r}: this worker's placement has {', '.join(arenas)}{hint}"
    )
