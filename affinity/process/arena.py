"""Named arenas of a worker: parts of its memory that have a placement of their own.

    with arena("data"):
        images = load()

places the pages that this thread touches first. ``allocate_in("weights", size)`` places its buffer
whoever touches it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager

from affinity.errors import MemoryPolicyError, PlacementError
from affinity.placement.plan import Arena
from affinity.process.allocation import Allocation, HugePagesWish, allocate
from affinity.process.memory_policy import (
    AppliedPolicy,
    apply_memory_policy,
    memory_policy,
    set_memory_policy,
)
from affinity.process.own import own_placement


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
