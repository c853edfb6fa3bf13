"""Slurm's way to write many host names in one word, as in `n[001-003,7],login`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knltrain.errors import ConfigError

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def hosts_of(text: str) -> tuple[str, ...]:
    """Return all names in their order; ConfigError for what is no such list."""
    return tuple(name for word in _words(text) for name in _names(word, text))


def _words(text: str) -> list[str]:
    """Cut at the commas that are not between brackets."""
    return [word for word in re.split(r",(?![^\[]*\])", text) if word]


def _names(word: str, text: str) -> Iterator[str]:
    before, bracket, rest = word.partition("[")
    if not bracket:
        if "]" in word:
            raise _unknown(text)
        yield word
        return
    inside, closed, after = rest.partition("]")
    if not closed:
        raise _unknown(text)
    for number in _numbers(inside, text):
        for end in _names(after, text) if after else ("",):
            yield f"{before}{number}{end}"


def _numbers(inside: str, text: str) -> Iterator[str]:
    for part in inside.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise _unknown(text)
        first, last = found[1], found[2] or found[1]
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


def _unknown(text: str) -> ConfigError:
    return ConfigError(f"'{text}' is no list of hosts: expected one such as n[001-003,7],login")
