"""Memory that MPI makes, put where a worker's placement wants it, and proved page by page.

A segment is placed by who makes it (`Segment.place`), before anybody touches it. A window's memory
is MPI's, which may have touched it: its pages are moved then, as far as nobody else has them.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from affinity import (
    MemoryPlan,
    MemoryPolicyError,
    Placement,
    format_cpulist,
    own_placement,
    place_mapping,
)
from affinity.process.mapping import address_of
from affinity.process.residency import pages_by_node
from affinity.sizes import format_bytes
from knltrain.errors import SegmentError

if TYPE_CHECKING:
    from affinity import Arena

_WINDOWS: list[str] = []


def place_window(memory: memoryview, what: str, placement: Placement | None = None) -> None:
    """Put the whole pages of a new window where a placement wants them, and zeros into each.

    That is this process's own, by default. Vectors are part of the arena "model", where it has
    arenas. `window_remarks` tells what came of it. Raises SegmentError where the placement is
    ``strict`` and a page cannot be had there.
    """
    placement = placement or own_placement()
    if placement is None:
        return
    wanted: MemoryPlan | Arena = placement.memory.arena("model") or placement.memory
    pages = _whole_pages(memory)
    if wanted.mode == "default" or not pages:
        return
    strict = placement.memory.policy == "strict"
    try:
        applied = place_mapping(pages, wanted.mode, wanted.nodes, move=True, required=strict)
    except MemoryPolicyError as error:
        raise SegmentError(f"{what} of worker {placement.rank}: {error}") from None
    pages[:: mmap.PAGESIZE] = bytes(-(-pages.nbytes // mmap.PAGESIZE))
    _WINDOWS.extend((*applied.notes, _proved(pages, what, wanted, strict)))


def window_remarks() -> tuple[str, ...]:
    """Of each window of this process that was placed, how much of it is where it was to be."""
    return tuple(dict.fromkeys(_WINDOWS))


def _proved(pages: memoryview, what: str, wanted: MemoryPlan | Arena, strict: bool) -> str:
    try:
        found = pages_by_node(address_of(pages), pages.nbytes)
    except MemoryPolicyError as error:
        if strict:
            raise SegmentError(f"{what}: strict cannot be proved: {error}") from None
        return f"{what}: {error}"
    there = mmap.PAGESIZE * sum(count for node, count in found.items() if node in wanted.nodes)
    told = (
        f"{format_bytes(there)} of {format_bytes(pages.nbytes)} of {what} on node "
        f"{format_cpulist(wanted.nodes)}"
    )
    if strict and there < pages.nbytes:
        elsewhere = format_cpulist(node for node in found if node not in wanted.nodes)
        raise SegmentError(
            f"only {told}, where strict wants all of it: the rest is on node {elsewhere}; free "
            'memory there, or use placement.memory = "spill"'
        )
    return told


def _whole_pages(memory: memoryview) -> memoryview:
    flat = memory.cast("B")
    begin = -address_of(flat) % mmap.PAGESIZE
    return flat[begin : begin + (flat.nbytes - begin) // mmap.PAGESIZE * mmap.PAGESIZE]
