"""Numbers in texts of others."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\s*([0-9]{1,18})\s*")


def whole_number(text: str | None) -> int | None:
    """The number, 0 or more, that a text of 18 digits or fewer is; None for any other text.

    Python itself refuses to read numbers of thousands of digits, by a ValueError.
    """
    found = _NUMBER.fullmatch(text or "")
    return int(found[1]) if found else None
