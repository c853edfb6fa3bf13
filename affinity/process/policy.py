"""Linux's memory policies by name and by the kernel's numbers (set_mempolicy(2))."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import MemoryPolicyError

MODES = (
    "default",
    "preferred",
    "bind",
    "interleave",
    "local",
    "preferred-many",
    "weighted-interleave",
)
"""Linux's modes, each at its number."""

WEAKER = {"preferred-many": "preferred", "weighted-interleave": "interleave"}
"""What an older kernel has instead: before Linux 5.15 and 6.9."""

_TAKES = {
    "default": (0, 0, "no nodes"),
    "local": (0, 0, "no nodes"),
    "preferred": (1, 1, "exactly one node"),
}
_MASK_BITS = 1024
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
NodeMask = ctypes.c_ulong * (_MASK_BITS // _WORD_BITS)
MAXNODE = _MASK_BITS + 1  # The kernel subtracts one.


class Policy(NamedTuple):
    """A mode of `MODES` and the ids of its nodes, ascending."""

    mode: str
    nodes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.mode}:{format_cpulist(self.nodes)}" if self.nodes else self.mode


def parse_policy(text: str) -> Policy:
    """Read ``"bind:2-3"`` or ``"default"``; MemoryPolicyError if mode or nodes make no sense."""
    mode, _, nodes = text.partition(":")
    policy = Policy(mode, parse_cpulist(nodes))
    check_form(policy)
    return policy


def check_form(policy: Policy) -> None:
    """Raise MemoryPolicyError if there is no such mode, or it does not take these nodes."""
    mode, nodes = policy
    if mode not in MODES:
        raise MemoryPolicyError(f"unknown memory policy {mode!r}: expected {', '.join(MODES)}")
    if nodes and not 0 <= min(nodes) <= max(nodes) < _MASK_BITS:
        raise MemoryPolicyError(f"memory policy {policy}: nodes run from 0 to {_MASK_BITS - 1}")
    fewest, most, words = _TAKES.get(mode, (1, _MASK_BITS, "one node or more, as in 0-1"))
    if not fewest <= len(nodes) <= most:
        given = format_cpulist(nodes) or "none"
        raise MemoryPolicyError(f"memory policy {mode} takes {words}; given: {given}")


def packed(policy: Policy) -> tuple[int, ctypes.Array[ctypes.c_ulong] | None, int]:
    """The mode\'s number, its mask and the number of bits that the kernel is to look at."""
    number = MODES.index(policy.mode)
    if not policy.nodes:
        return number, None, 0
    mask = NodeMask()
    for node in policy.nodes:
        mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
    return number, mask, MAXNODE


def unpacked(mask: ctypes.Array[ctypes.c_ulong]) -> tuple[int, ...]:
    """Ids of the nodes in a mask of the kernel's, ascending."""
    return tuple(
        position * _WORD_BITS + bit
        for position, word in enumerate(mask)
        if word
        for bit in range(_WORD_BITS)
        if word >> bit & 1
    )
