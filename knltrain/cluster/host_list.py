"""Lists of hosts: in Slurm's compact notation, as in `n[001-003,7],login`, and in machine files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from knltrain.errors import ConfigError

MOST_HOSTS: Final = 2**17
_MOST_BRACKETS = 8
_LONGEST = 2**20
_LONGEST_NAME = 253
"""The longest host name in the domain name system, RFC 1035."""
_WITH_SLOTS = re.compile(r"[^:]+:[0-9]+")
"""As MPICH's hydra takes them; names of IPv6 have several colons."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def hosts_of(text: str) -> tuple[str, ...]:
    """Return all names in order; ConfigError for text that is no list, or too many names."""
    if len(text) > _LONGEST:
        raise _unknown(text)
    names = (name for word in _words(text) for name in _names(_bounded(word, text), text))
    found = tuple(islice(names, MOST_HOSTS + 1))
    for name in found:
        if name.startswith("-") or " " in name:  # an option, to ssh
            raise ConfigError(
                f"'{_shown(name)}' is no name of a host: expected one without spaces, which does "
                "not begin with a hyphen"
            )
    if len(found) > MOST_HOSTS:
        raise ConfigError(f"'{_shown(text)}' names more than {MOST_HOSTS} hosts")
    return found


def hosts_in(file: Path) -> tuple[str, ...]:
    """Return the hosts of a machine file: in each line a name, or a list in Slurm's notation.

    What is behind a # is a comment. Raises ConfigError for a file that cannot be read, for more
    than names, and for one that is there twice.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: no machine file that can be read ({error})") from error
    found: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if len(words) > 1 or _WITH_SLOTS.fullmatch("".join(words)):
            raise ConfigError(
                f"{file}, line {number}: '{_shown(line.strip())}' is more than a name; how many "
                "workers a computer has, --workers says for all"
            )
        try:
            hosts = hosts_of("".join(words))
        except ConfigError as error:
            raise ConfigError(f"{file}, line {number}: {error}") from None
        for host in hosts:
            if host in found:
                raise ConfigError(
                    f"{file}, line {number}: '{host}' is in line {found[host]} already: expected "
                    "each computer once; how many workers it has, --workers says"
                )
            found[host] = number
    if not found:
        raise ConfigError(f"{file} names no host: expected one in each line")
    return tuple(found)


def _words(text: str) -> Iterator[str]:
    """Split at the commas that are not between brackets."""
    word, inside = "", False
    for part in re.split(r"([,\[\]])", text):
        inside = part == "[" or (inside and part != "]")
        if part == "," and not inside:
            yield from filter(None, [word])
            word = ""
        else:
            word += part
    yield from filter(None, [word])


def _bounded(word: str, text: str) -> str:
    """Return the item unless it has too many brackets or too long names."""
    if word.count("[") > _MOST_BRACKETS or len(re.sub(r"\[.*?]", "", word)) > _LONGEST_NAME:
        raise _unknown(text)
    return word


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
        if int(last) < int(first):
            raise _unknown(text)
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


def _unknown(text: str) -> ConfigError:
    return ConfigError(
        f"'{_shown(text)}' is no list of hosts: expected one such as n[001-003,7],login"
    )


def _shown(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
