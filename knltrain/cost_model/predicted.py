"""Predicted seconds of exchanges of a network's parameters, by algorithm and number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from knltrain.cost_model.collectives import (
    halving_and_doubling,
    one_after_another,
    recursive_doubling,
    ring,
    shared_center,
    tree,
)
from knltrain.cost_model.line import Link

EXCHANGES: Final[dict[str, Callable[[Link, float, int], float]]] = {
    "one after another": one_after_another,
    "tree": tree,
    "ring": ring,
    "recursive doubling": recursive_doubling,
    "halving and doubling": halving_and_doubling,
    "shared center": shared_center,
}
"""Each of them brings every rank the sum of all, or what it needs of a center."""


def predicted(link: Link, size: int, ranks: Sequence[int]) -> list[dict[str, Any]]:
    """A row, as JSON, for each number of ranks: the seconds of each of `EXCHANGES`."""
    return [
        {"ranks": each, "seconds": {name: it(link, size, each) for name, it in EXCHANGES.items()}}
        for each in ranks
    ]
