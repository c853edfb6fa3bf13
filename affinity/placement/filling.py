"""Computes where the workers' bytes end up if all fill their memories at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """So many bytes, taken from the nodes in `order` as long as they last."""

    bytes: int
    order: tuple[int, ...]


def fill(demands: Sequence[Demand], free: Mapping[int, int]) -> list[dict[int, int]]:
    """Bytes of each demand by node; bytes without room anywhere are in none.

    Demands on the same node at the same time get equal parts of it, or all they want if that is
    less; then each goes on to its next node.
    """
    room = dict(free)
    placed: list[dict[int, int]] = [{} for _ in demands]
    wanting = [demand.bytes for demand in demands]
    for step in range(max((len(demand.order) for demand in demands), default=0)):
        queues: defaultdict[int, list[int]] = defaultdict(list)
        for number, demand in enumerate(demands):
            if wanting[number] and step < len(demand.order):
                queues[demand.order[step]].append(number)
        for node, queue in queues.items():
            queue.sort(key=lambda number: wanting[number])
            for waiting, number in zip(range(len(queue), 0, -1), queue, strict=True):
                if share := min(wanting[number], room[node] // waiting):
                    placed[number][node] = share
                    room[node] -= share
                    wanting[number] -= share
    return placed


def portions(number: int, weights: Iterable[int]) -> list[int]:
    """Cut a whole number in the ratio of the weights; the parts add up to it exactly."""
    parts: list[int] = []
    ends, total = 0, 0
    amounts = tuple(weights)
    for weight in amounts:
        total += weight
        end = number * total // sum(amounts)
        parts.append(end - ends)
        ends = end
    return parts
