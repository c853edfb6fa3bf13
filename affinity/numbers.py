"""Numbers as text: whole ones, and sizes of memory."""

from __future__ import annotations

_UNITS = (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1))


def format_bytes(number: int, digits: int = 1) -> str:
    """Write bytes with the unit that suits them: ``"16.0 GiB"``, ``"512.0 MiB"``, ``"0 B"``."""
    for unit, power in _UNITS:
        # Rounded first: just below a GiB is 1.0 GiB, and never 1024.0 MiB.
        if round(number / 1024 ** (power - 1), digits) >= 1024:
            return f"{number / 1024**power:.{digits}f} {unit}"
    return f"{number} B"


def whole_number(text: str | None, most_digits: int = 18) -> int | None:
    """The whole number in ASCII digits; None for any other text, or more digits.

    Python's own test accepts other characters as digits that it cannot read as a number, and its
    conversion raises ValueError for some thousand digits.
    """
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= most_digits):
        return None
    return int(text)
