"""Parses whole numbers in untrusted text."""

from __future__ import annotations


def whole_number(text: str | None, most_digits: int = 18) -> int | None:
    """The number, 0 or more, that these ASCII digits are; None for any other text, or more digits.

    Some other characters count as digits that Python reads as no number, and of some thousand
    digits it raises ValueError.
    """
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= most_digits):
        return None
    return int(text)
