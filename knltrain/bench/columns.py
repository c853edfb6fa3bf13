"""Tables of text: each column as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

_GAP = "  "


def columns(
    head: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)
) -> list[str]:
    """Return the lines of a table: numbers end below each other, the columns `left` begin so.

    Every row has as many cells as the head.
    """
    table = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return _GAP.join(cells).rstrip()

    return list(map(line, table))
