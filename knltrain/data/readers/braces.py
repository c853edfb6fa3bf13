"""Braces in the names of shards, as shells and webdataset know them: train-{000..004}.tar."""

from __future__ import annotations

import re
from typing import Final

from knltrain.errors import DataError

MOST_NAMES: Final = 100_000

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def expanded(pattern: str) -> list[str]:
    """The names that a pattern stands for: {000..004} counts, {a,b} lists; several multiply.

    Numbers are as wide as the first one. Raises DataError for what is neither, or far too many.
    """
    found = _BRACES.search(pattern)
    if found is None:
        if "{" in pattern or "}" in pattern:
            raise _wrong(pattern)
        return [pattern]
    begin, end = pattern[: found.start()], pattern[found.end() :]
    parts, rests = _parts(found[1], pattern), expanded(end)
    if len(parts) * len(rests) > MOST_NAMES:
        raise DataError(f"'{pattern}' stands for more than {MOST_NAMES:,} names: expected fewer")
    return [begin + part + rest for part in parts for rest in rests]


def _parts(inside: str, pattern: str) -> list[str]:
    counted = _RANGE.fullmatch(inside)
    if counted is None:
        if "," not in inside:
            raise _wrong(pattern)
        return inside.split(",")
    first, last = int(counted[1]), int(counted[2])
    if not first <= last < first + MOST_NAMES:
        raise _wrong(pattern)
    return [f"{number:0{len(counted[1])}d}" for number in range(first, last + 1)]


def _wrong(pattern: str) -> DataError:
    return DataError(
        f"'{pattern}': expected braces as in train-{{000..004}}.tar or {{train,extra}}.tar"
    )
