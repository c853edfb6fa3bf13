"""The kernel's notation for sets of cpus and NUMA nodes, such as ``0-3,8``."""

from __future__ import annotations

from collections.abc import Iterable

from affinity.errors import AffinityError

TOO_HIGH = 2**20
"""Far above the 8,192 cpus and 1,024 nodes of Linux, and low enough for a set of so many."""


def parse_cpulist(text: str) -> tuple[int, ...]:
    """Read ``"0-3,8"`` as ``(0, 1, 2, 3, 8)``: ascending, each once; blank text is the empty set.

    Raises AffinityError naming the part that is not a number or an ascending range.
    """
    numbers: set[int] = set()
    for part in filter(None, (part.strip() for part in text.strip().split(","))):
        first, dash, last = part.partition("-")
        if not (_is_number(first) and (_is_number(last) or not dash)):
            raise _malformed(text, part, "expected a number or a range")
        # Python itself refuses to read numbers of thousands of digits.
        low, high = (int(end) if len(end) < 20 else TOO_HIGH for end in (first, last or first))
        if low > high:
            raise _malformed(text, part, "the range runs backwards")
        if high >= TOO_HIGH:
            raise _malformed(text, part, f"no cpu has a number of {TOO_HIGH} or more")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def format_cpulist(numbers: Iterable[int]) -> str:
    """Write ``(0, 1, 2, 3, 8)`` as ``"0-3,8"``; order and repetition do not matter."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def members_of(bits: int) -> tuple[int, ...]:
    """The numbers in a bit mask: of 5, which is 101 in binary, 0 and 2.

    Raises AffinityError if one is `TOO_HIGH` or more.
    """
    if bits.bit_length() > TOO_HIGH:
        raise AffinityError(f"a mask of {bits.bit_length()} bits: no cpu is {TOO_HIGH} or more")
    return tuple(number for number, bit in enumerate(f"{bits:b}"[::-1]) if bit == "1")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _malformed(text: str, part: str, reason: str) -> AffinityError:
    return AffinityError(f"bad cpu list {text.strip()!r} at {part!r}: {reason}, as in 0-3,8")
