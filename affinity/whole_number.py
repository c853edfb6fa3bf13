"""Parses whole numbers in untrusted text."""

from __future__ import annotations


def whole_number(text: str | None, most_digits: int = 18) -> int | None:
    """The whole number in ASCII digits; None for any other text, or more digits.

    Python's own test accepts other characters as digits that it cannot read as a number, and its
    conversion raises ValueError for some thousand digits.
    """
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= most_digits):
        return None
    return int(text)
