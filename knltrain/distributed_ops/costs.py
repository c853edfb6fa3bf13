"""The cost of a direction of a layer: operations, bytes of memory, bytes to other ranks.

Operations and bytes of memory are those of `vectorized_ops.shapes`. They make the two intensities
of H. Kim's thesis: operations per byte of memory, operations per byte of communication.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a call; a rank sends at least `wire_bytes`, in `wire_steps` messages in a row.

    `flops` and `memory_bytes` are by definition, `executed_flops` and `layout_bytes` by the
    algorithm and the layout.
    """

    flops: int
    memory_bytes: int
    executed_flops: int
    layout_bytes: int
    wire_bytes: float = 0.0
    wire_steps: int = 0


def ring_bytes(bytes_: int, ranks: int) -> float:
    """Return what a rank sends in a ring all-reduce: 2 (P - 1) / P of the bytes, the minimum."""
    return 2 * bytes_ * (ranks - 1) / ranks


def ring_steps(ranks: int) -> int:
    """Return the number of sequential messages of a ring all-reduce."""
    return 2 * (ranks - 1)


def tree_bytes(bytes_: int) -> int:
    """Return the bytes on an edge of a tree: the sum up, the result down."""
    return 2 * bytes_


def master_bytes(bytes_: int, ranks: int) -> int:
    """Return the bytes that a master sends, or receives, from all others."""
    return bytes_ * ranks
