"""The trees of CaffeGPI: a binomial one for sums, a k-ary one for copies; rank 0 is their root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from knltrain.cost_model.collectives import k_ary_levels

_MOST_BRANCHES = 100


class Branches(NamedTuple):
    """Children of a rank: in the tree of sums, None if it is binomial, and in that of copies."""

    reduction: int | None
    broadcast: int


@dataclass(frozen=True, slots=True)
class Place:
    """The edges of one rank in a tree: to its parent, None at the root, and to its children."""

    parent: int | None
    children: list[int]


def binomial(rank: int, ranks: int) -> Place:
    """Return the place of ``rank`` in the binomial tree (CaffeGPI, ``CommunicatorDiff``).

    The parent is the rank without its highest bit. The children, in ascending order, are those with
    one more, higher bit: of 8 ranks, 0 adds up 1, 2 and 4; 1 adds 3 and 5; 2 adds 6; 3 adds 7.
    """
    bits = range(rank.bit_length(), ranks.bit_length())
    children = [rank + (1 << bit) for bit in bits if rank + (1 << bit) < ranks]
    return Place(rank - (1 << rank.bit_length() - 1) if rank else None, children)


def k_ary(rank: int, ranks: int, branches: int) -> Place:
    """Return the place of ``rank`` in a tree of ``branches`` at each node, in heap order.

    CaffeGPI, ``CommunicatorModel``.
    """
    first = branches * rank + 1
    children = list(range(first, min(first + branches, ranks)))
    return Place((rank - 1) // branches if rank else None, children)


def reduction_place(rank: int, ranks: int, branches: int | None) -> Place:
    """Return the place of ``rank`` in the tree of sums: k-ary, binomial if ``branches`` is None."""
    return binomial(rank, ranks) if branches is None else k_ary(rank, ranks, branches)


def best_branches(ranks: int) -> int:
    """Return the number of branches with the least ``branches`` × levels of the k-ary tree.

    This product is the time of a broadcast if a rank sends to its children one after another
    (CaffeGPI).
    """
    return min(
        range(2, _MOST_BRANCHES + 1), key=lambda branches: branches * k_ary_levels(ranks, branches)
    )
