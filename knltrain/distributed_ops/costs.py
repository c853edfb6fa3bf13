"""What a direction of a layer costs: operations, bytes of memory, bytes to other ranks.

Operations and bytes of memory are those of `vectorized_ops.shapes`. They make the two intensities
of H. Kim's thesis: operations per byte of memory, operations per byte of communication.
"""

from __future__ import annotations

from dataclasses import dataclass

from vectorized_ops import shapes


@dataclass(frozen=True, slots=True)
class Cost:
    """One call: `wire_bytes` are what a rank sends at least, in `wire_steps` messages in a row."""

    flops: int
    memory_bytes: int
    wire_bytes: float = 0.0
    wire_steps: int = 0

    @classmethod
    def of(cls, computing: shapes.Cost, wire_bytes: float = 0.0, wire_steps: int = 0) -> Cost:
        """What is computed, and what is sent of it."""
        return cls(computing.flops, computing.compulsory_bytes, wire_bytes, wire_steps)


NOTHING = shapes.Cost(0, 0)


def ring_bytes(bytes_: int, ranks: int) -> float:
    """What a rank sends in an all-reduce by a ring: 2 (P - 1) / P; no way to do it sends less."""
    return 2 * bytes_ * (ranks - 1) / ranks


def ring_steps(ranks: int) -> int:
    """Messages of a ring that follow each other."""
    return 2 * (ranks - 1)


def tree_bytes(bytes_: int) -> int:
    """What crosses an edge of a tree: its sum up, its result down."""
    return 2 * bytes_


def master_bytes(bytes_: int, ranks: int) -> int:
    """What the master sends, or receives, where all others come to it."""
    return bytes_ * ranks
