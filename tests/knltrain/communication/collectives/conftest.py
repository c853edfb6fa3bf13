"""Groups whose ranks are threads of this process, each with a mapping of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from knltrain.communication.collectives import Group, GroupSegment

InRanks = Callable[..., list[Any]]


@pytest.fixture
def segments() -> Iterator[Callable[[int], list[GroupSegment]]]:
    """A function that makes the mappings of a new group, one for each rank."""
    made: list[GroupSegment] = []

    def make(ranks: int) -> list[GroupSegment]:
        first = GroupSegment.create(ranks)
        others = [GroupSegment.attach(os.dup(first.fd), ranks) for _ in range(ranks - 1)]
        made.extend([first, *others])
        for rank, segment in enumerate([first, *others]):
            segment.claim(rank)
        return [first, *others]

    yield make
    for segment in made:
        segment.leave(0)


@pytest.fixture
def in_ranks(segments: Callable[[int], list[GroupSegment]]) -> InRanks:
    """in_ranks(ranks, work): what `work(group)` returns for each rank."""

    def run(ranks: int, work: Callable[[Group], Any], limit_seconds: float = 20.0) -> list[Any]:
        names = [f"rank {rank}" for rank in range(ranks)]
        groups = [
            Group(segment, rank, names, limit_seconds)
            for rank, segment in enumerate(segments(ranks))
        ]
        with ThreadPoolExecutor(ranks) as pool:
            return list(pool.map(work, groups))

    return run
