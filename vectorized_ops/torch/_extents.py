"""Extents of windows as PyTorch takes them: one number for both axes, or one for each."""

from __future__ import annotations

from typing import Any

Pair = tuple[int, int]
Extent = int | Pair


def pair(value: Any) -> Pair | None:
    """Return the extents of lines and columns; None for what only PyTorch may judge."""
    sides = (value,) if type(value) is int else value
    if not isinstance(sides, (tuple, list)) or len(sides) not in (1, 2):
        return None
    if not all(type(side) is int for side in sides):
        return None
    return sides[0], sides[-1]
