"""Parses sizes of vectors, and selects those that fit into memory."""

from __future__ import annotations

import re
from collections.abc import Iterable

from affinity.numbers import format_bytes
from knltrain.errors import ConfigError

FLOAT_BYTES = 4
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3}
_SIZE = re.compile(r"(\d+)(?:([KMG])(B|IB)?|B)?", re.IGNORECASE)
_USABLE = 0.8
"""Share of the free memory; the rest is for buffers of libraries, and for other programs."""


def parse_size(text: str, option: str = "--size") -> int:
    """Return the bytes of a size.

    K, M and G are powers of 1024, as KiB, MiB and GiB are; kB, MB and GB are powers of 1000. Raises
    ConfigError for anything else, and for sizes that are not whole numbers of float32 values.
    """
    found = _SIZE.fullmatch(text)
    number, unit, ending = (part or "" for part in (found.groups() if found else ("0", "", "")))
    base = 1000 if ending.upper() == "B" else 1024
    size: int = int(number) * base ** _POWERS[unit.upper()]
    if size < FLOAT_BYTES or size % FLOAT_BYTES:
        raise ConfigError(
            f"{option}: '{text}' is no size of a vector of float32 values: expected a multiple "
            "of 4 bytes, such as 4096, 64K, 1M (powers of 1024) or 28MB (of 1000)"
        )
    return size


def parse_sizes(text: str) -> list[int]:
    """Return the bytes of comma-separated sizes, each once and ascending.

    Raises as `parse_size`, and ConfigError for an empty list.
    """
    words = (word.strip() for word in text.split(","))
    sizes = sorted({parse_size(word, "--sizes") for word in words if word})
    if not sizes:
        raise ConfigError("--sizes is empty: expected sizes, such as 64K,28MB")
    return sizes


def format_size(size: int) -> str:
    """Write a size as `parse_sizes` reads it: in the largest unit that gives a whole number."""
    for unit, power in (("G", 3), ("M", 2), ("K", 1)):
        for base, ending in ((1024, "iB"), (1000, "B")):
            if size % base**power == 0:
                return f"{size // base**power} {unit}{ending}"
    return f"{size} B"


def fitting(
    sizes: Iterable[int], vectors: int, fixed_bytes: int, free: int
) -> tuple[list[int], dict[int, str]]:
    """Return the sizes at which all contestants together can hold `vectors`, and why not others.

    `fixed_bytes` of the `free` ones are taken in any case.
    """
    fit, left_out = [], {}
    for size in sizes:
        needed = vectors * size + fixed_bytes
        if needed <= _USABLE * free:
            fit.append(size)
        else:
            left_out[size] = (
                f"the contestants need {format_bytes(needed)} of memory at once, of "
                f"{format_bytes(free)} that are free"
            )
    return fit, left_out
