"""Checks that memory policies work here, on one page of each NUMA node that may be used."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator, Sequence

from affinity.cli.checking.finding import Finding, Level
from affinity.cli.phrases import memory_names
from affinity.errors import MemoryPolicyError
from affinity.placement.wording import listed
from affinity.process.arena import allocate
from affinity.process.memory_policy import bind_memory
from affinity.process.policy import WEAKER
from affinity.process.residency import pages_by_node
from affinity.topology import Topology

_SUBJECT = "memory policies"
_MODES = ("bind", "preferred", "interleave", "preferred-many", "weighted-interleave")


def policy_findings(topology: Topology, mems: Sequence[int]) -> Iterator[Finding]:
    """Bind a page to each node and check where it lies; then check which modes work.

    On a machine with one memory only, policies that do not work are no failure: all pages are there
    anyway.
    """
    level: Level = "fail" if len(mems) > 1 else "note"
    try:
        strays = {node: found for node in mems for found in [_page_bound_to(node)] if found != node}
    except MemoryPolicyError as error:
        yield Finding(level, _SUBJECT, str(error))
        return
    names = dict(zip(mems, memory_names(topology, mems), strict=True))
    for asked, found in strays.items():
        yield Finding(
            "fail", _SUBJECT, f"a page bound to {names[asked]} came to lie on node {found}"
        )
    if not strays:
        each = "each of " if len(mems) > 1 else ""
        text = f"a page bound to {each}{listed(names.values())} came to lie there"
        yield Finding("ok", _SUBJECT, text)
    yield from _modes(mems[:1])


def _page_bound_to(node: int) -> int:
    """The node on which a page bound to `node` is; MemoryPolicyError where policies fail."""
    memory = allocate(mmap.PAGESIZE, "bind", (node,), huge="never", required=True)
    memory.buffer[0] = 1
    return next(iter(pages_by_node(memory.address, mmap.PAGESIZE)))


def _modes(node: Sequence[int]) -> Iterator[Finding]:
    memory = allocate(mmap.PAGESIZE, huge="never")
    known, unknown = [], []
    for mode in _MODES:
        try:
            bind_memory(memory.address, mmap.PAGESIZE, mode, node)
            known.append(mode)
        except MemoryPolicyError as error:
            if error.errno != errno.EINVAL:
                raise
            unknown.append(mode)
    text = f"this kernel knows {listed(known)}"
    if unknown:
        text += "; in place of " + listed(f"{mode} it gets {WEAKER[mode]}" for mode in unknown)
    yield Finding("note" if unknown else "ok", "policy modes", text)
