"""Bytes as people read them."""

from __future__ import annotations


def size_text(number: int) -> str:
    """Write bytes with the unit that suits them: ``"16 GiB"``, ``"1.5 TiB"``, ``"0 B"``."""
    for unit, power in (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if number >= 1024**power:
            return f"{number / 1024**power:.4g} {unit}"
    return f"{number} B"
