"""Rounds in which the contestants, and the machine's copy, take turns on the same vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knltrain.bench.exchange.contestants import COPY, Contestant
from knltrain.bench.exchange.crew import Crew
from knltrain.bench.exchange.report import Measurement
from knltrain.bench.exchange.sizes import FLOAT_BYTES
from knltrain.bench.exchange.vectors import Vectors

TURN_SECONDS = 0.1
"""A contestant's part of a round is as many exchanges as take so long, one at least."""

COPIED_FLOATS = 1 << 25
_COPY_WAYS = ("numpy", "torch")
_COPIES = 4

_MOST_COUNT = 10**6


def take_turns(
    sets: Sequence[Vectors],
    crews: Mapping[str, Crew],
    contestants: Sequence[Contestant],
    workers: int,
    rounds: int,
) -> list[Measurement]:
    """Let all hold the vectors of all sets, take turns on each, and drop them again."""
    users = [crew for name, crew in crews.items() if name != COPY]
    for vectors in sets:
        vectors.held_by(users)
    turns = [
        (vectors, each, _count(crews[each.crew], vectors.name, each))
        for vectors in sets
        for each in contestants
    ]
    seconds: dict[str, dict[str, list[float]]] = {vectors.name: {} for vectors in sets}
    copies: list[float] = []
    for _ in range(rounds):
        copies.append(_copy_rate(crews[COPY], workers))
        for vectors, each, count in turns:
            taken = crews[each.crew].seconds(vectors.name, each.operation, count, each.members)
            seconds[vectors.name].setdefault(each.name, []).append(taken)
    for vectors in sets:
        vectors.dropped_by(users)
    return [Measurement(each.bytes, seconds[each.name], copies) for each in sets]


def hold_copies(crew: Crew) -> None:
    """Let the copying processes hold arrays so large that caches keep next to nothing of them."""
    crew.hold(COPY, [COPIED_FLOATS])


def copied_bytes(workers: int) -> int:
    """Bytes of these arrays; one copy by all processes reads or writes each once."""
    return 2 * workers * COPIED_FLOATS * FLOAT_BYTES


def _count(crew: Crew, name: str, contestant: Contestant) -> int:
    """Return how many operations take about TURN_SECONDS, after a warm-up."""

    def seconds(count: int) -> float:
        return crew.seconds(name, contestant.operation, count, contestant.members)

    count = 1
    while (taken := seconds(count)) * count < TURN_SECONDS / 8 and count < _MOST_COUNT:
        count *= 8
    taken = min(taken, seconds(count))  # the first ones may have been the ones that warmed up
    return min(max(1, round(TURN_SECONDS / taken)), _MOST_COUNT)


def _copy_rate(crew: Crew, workers: int) -> float:
    """Return bytes per second, read and written, of all workers at once, by the faster copy."""
    return copied_bytes(workers) / min(crew.seconds(COPY, way, _COPIES) for way in _COPY_WAYS)
