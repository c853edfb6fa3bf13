"""What the optimizers cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from vectorized_ops.shapes import FLOAT_BYTES

_UPDATES: Final = {
    "sgd": (4, 5),
    "lars": (8, 7),
    "adam": (12, 7),
    "adamw": (15, 7),
    "adagrad": (7, 5),
    "rmsprop": (9, 5),
    "adadelta": (15, 7),
}
"""Operations, and reads and writes, for each parameter; a root or a quotient is one operation.

With momentum, where there is one. Without clipping, and without a weight decay that is a term of
the gradient.
"""


class UpdateCost(NamedTuple):
    """Operations of an update, and the bytes that it moves."""

    flops: int
    moved_bytes: int


def update_costs(optimizer: str, values: Mapping[str, int]) -> dict[str, UpdateCost]:
    """By layer, of which `values` tells the number of parameters; KeyError for no optimizer."""
    flops, moved = _UPDATES[optimizer]
    return {
        layer: UpdateCost(flops * count, FLOAT_BYTES * moved * count)
        for layer, count in values.items()
    }


def total_of(costs: Iterable[UpdateCost]) -> UpdateCost:
    """All of them together."""
    each = list(costs)
    return UpdateCost(sum(one.flops for one in each), sum(one.moved_bytes for one in each))
