"""What the optimizers cost."""

from __future__ import annotations

from typing import Final

from vectorized_ops.shapes import FLOAT_BYTES

_UPDATES: Final = {"sgd": (4, 5), "lars": (8, 7), "adam": (12, 7), "adamw": (12, 7)}
"""Operations, and reads and writes, for each parameter: of SGD, with momentum."""


def update_cost(optimizer: str, values: int) -> tuple[int, int]:
    """Operations, and bytes moved, of a step on so many parameters; zeros where it is not known."""
    flops, moved = _UPDATES.get(optimizer, (0, 0))
    return flops * values, FLOAT_BYTES * moved * values
