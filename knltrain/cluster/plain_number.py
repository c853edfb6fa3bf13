"""Numbers as launchers write them."""

from __future__ import annotations

from affinity.whole_number import whole_number

_MOST_DIGITS = 9


def plain_number(text: str | None) -> int | None:
    """Return the number that a text of ASCII digits stands for; None for any other text.

    No launcher counts beyond nine digits.
    """
    return whole_number(text, _MOST_DIGITS)
