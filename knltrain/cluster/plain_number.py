"""Numbers as launchers write them."""

from __future__ import annotations

from affinity.whole_number import whole_number

_MOST_DIGITS = 9


def plain_number(text: str | None) -> int | None:
    """Return the number of a text of up to nine ASCII digits; None for any other text."""
    return whole_number(text, _MOST_DIGITS)
