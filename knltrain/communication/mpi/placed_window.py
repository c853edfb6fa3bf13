"""Placement of MPI windows: moves the pages to the worker's memory, and checks each of them.

A segment is placed before its first touch (`Segment.place`). MPI allocates a window, and may have
touched it. So its pages are moved, unless another process has mapped them.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

from affinity import (
    MemoryPlan,
    MemoryPolicyError,
    Placement,
    format_cpulist,
    own_placement,
    place_mapping,
)
from affinity.numbers import format_bytes
from affinity.process.mapping import address_of
from affinity.process.residency import pages_by_node
from knltrain.errors import SegmentError

if TYPE_CHECKING:
    from affinity import Arena

_WINDOWS: list[str] = []


def place_window(memory: memoryview, what: str, placement: Placement | None = None) -> None:
    """Move the whole pages of a new window to the nodes of a placement, and zero them.

    By default it is this process's placement. If that has arenas, vectors belong to the arena
    "model". `window_remarks` reports the result. Raises SegmentError if the placement is
    ``strict`` and a page cannot be placed there.
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


def room_bytes() -> int:
    """Return the free bytes that MPI can share within a node, where it allocates windows."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return 2**63 - 1
    return found.f_bavail * found.f_frsize


def window_remarks() -> tuple[str, ...]:
    """Return how much of each placed window of this process lies on the wanted nodes."""
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
