"""Splits matrix products one vector wide, those of Winograd's points, into register tiles."""

from __future__ import annotations

from collections.abc import Sequence

from vectorized_ops.numba.emit.lanes import AVX512

COLUMN_ROWS = range(25 if AVX512 else 12, 0, -1)
"""Heights of tiles. The last tile of a matrix overlaps the one before it."""


def cheapest_rows(rows: int, heights: Sequence[int]) -> int:
    """Return the height that covers `rows` with the least work; a tile costs two rows more."""
    fitting = [height for height in heights if height <= rows] or [min(heights)]
    return min(fitting, key=lambda height: -(-rows // height) * (height + 2))
