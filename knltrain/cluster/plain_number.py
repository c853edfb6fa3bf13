"""Numbers as launchers write them."""

from __future__ import annotations

_MOST_DIGITS = 9


def plain_number(text: str | None) -> int | None:
    """Return the number that a text of ASCII digits stands for; None for any other text.

    Some characters count as digits that Python reads as no number. No launcher counts beyond nine.
    """
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        return None
    return int(text)
