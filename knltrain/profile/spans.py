"""Spans of time, and what of one kind lies within another: the definition of "hidden"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

Span: TypeAlias = tuple[float, float]
"""Begin and end, in seconds of any clock."""


class Overlap(NamedTuple):
    """How long exchanges go on, and how much of that is hidden; the rest is exposed."""

    whole: float
    hidden: float


def overlap(
    computing: Iterable[Span], exchanging: Iterable[Span], ready: Iterable[Span]
) -> Overlap:
    """What lies within computing of the exchanges, in the unit of the spans.

    The one definition of hidden and exposed (CaffeGPI; the thesis of SNU measures the exposed part
    by layer). Both kinds are unions of spans. The spans `ready`, in which gradients are handed to
    an exchange, lie within those of computing, and are part of the exchange alone.
    """
    handed = union(ready)
    exchanges = union([*exchanging, *handed])
    return Overlap(total(exchanges), common(exchanges, without(union(computing), handed)))


def union(spans: Iterable[Span]) -> list[Span]:
    """The time in which any of them goes on, as spans in order and without contact."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def total(unions: Sequence[Span]) -> float:
    """The length of a union."""
    return sum(end - begin for begin, end in unions)


def common(some: Sequence[Span], others: Sequence[Span]) -> float:
    """The time in which two unions both go on."""
    seconds, first, second = 0.0, 0, 0
    while first < len(some) and second < len(others):
        begin = max(some[first][0], others[second][0])
        end = min(some[first][1], others[second][1])
        seconds += max(0.0, end - begin)
        if some[first][1] < others[second][1]:
            first += 1
        else:
            second += 1
    return seconds


def without(some: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The time of one union outside another."""
    found: list[Span] = []
    first = 0
    for begin, end in some:
        while first < len(others) and others[first][1] <= begin:
            first += 1
        place = first
        while place < len(others) and others[place][0] < end:
            other_begin, other_end = others[place]
            if begin < other_begin:
                found.append((begin, other_begin))
            begin = max(begin, other_end)
            place += 1
        if begin < end:
            found.append((begin, end))
    return found
