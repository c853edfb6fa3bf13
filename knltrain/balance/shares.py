"""Shares of a batch by the measured speeds of workers, so that all need as long for a step.

Each worker takes whole granules of images, since a kernel needs as long for a few images as for a
whole vector of them. The slowest worker decides how long a step takes.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

WORTHWHILE = 0.05
"""Share of a step's time that other shares must save to be taken over."""

_HOPE = 0.98
"""What a worker without images is taken to need from one fit to the next, of what it needed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a worker's step: ``overhead_seconds``, and ``image_seconds`` for each image."""

    overhead_seconds: float
    image_seconds: float

    def of(self, images: int) -> float:
        """Seconds of a step with so many images; none without images."""
        return self.overhead_seconds + self.image_seconds * images if images else 0.0

    def scaled(self, factor: float) -> Cost:
        """The cost of a worker that is so many times slower."""
        return Cost(self.overhead_seconds * factor, self.image_seconds * factor)


def cost_of(times: Sequence[tuple[int, float]]) -> Cost:
    """The cost through the measured (images, seconds) of a small and of a larger batch."""
    (small, first), (large, second) = times
    if large <= small:
        return Cost(0.0, second / large)
    image = (second - first) / (large - small)
    if not 0 < image * large < second:  # by noise, or there is no overhead
        return Cost(0.0, second / large)
    return Cost(second - image * large, image)


def fitted_shares(
    costs: Sequence[Cost], batch: int, granule: int, may_idle: bool = True
) -> tuple[int, ...]:
    """The shares, by rank, with which the slowest worker is done soonest.

    All shares but one are multiples of ``granule`` images; what is left of the batch goes where it
    ends soonest. A worker that would hold up the others gets no images if it ``may_idle``, but
    rank 0 always has some. Granules are dealt one by one to whoever would end soonest with one
    more, which is optimal, as no worker becomes faster by more images.
    """
    granule = min(granule, batch if may_idle else max(1, batch // len(costs)))
    shares = [0 if may_idle and rank else granule for rank in range(len(costs))]
    waiting = [(cost.of(shares[rank] + granule), rank) for rank, cost in enumerate(costs)]
    heapq.heapify(waiting)
    for _ in range((batch - sum(shares)) // granule):
        _, rank = waiting[0]
        shares[rank] += granule
        heapq.heapreplace(waiting, (costs[rank].of(shares[rank] + granule), rank))
    if left := batch - sum(shares):
        having = [rank for rank, images in enumerate(shares) if images]
        soonest = min(having, key=lambda rank: costs[rank].of(shares[rank] + left))
        shares[soonest] += left
    return tuple(shares)


def step_seconds(costs: Sequence[Cost], shares: Sequence[int]) -> float:
    """Seconds until the slowest worker has its gradient."""
    return max(cost.of(images) for cost, images in zip(costs, shares, strict=True))


def refitted(
    costs: Sequence[Cost],
    shares: tuple[int, ...],
    seconds: Sequence[float],
    granule: int,
    may_idle: bool = True,
) -> tuple[tuple[Cost, ...], tuple[int, ...]]:
    """Costs after steps that took ``seconds`` of each worker, and shares for the next ones.

    The shares stay as they are unless a step becomes faster by more than `WORTHWHILE`. A worker
    without images is hoped to have become faster, so that it is tried again now and then.
    """
    measured = tuple(
        cost.scaled(_factor(cost, images, spent))
        for cost, images, spent in zip(costs, shares, seconds, strict=True)
    )
    found = fitted_shares(measured, sum(shares), granule, may_idle)
    now, then = step_seconds(measured, shares), step_seconds(measured, found)
    return measured, found if then < (1 - WORTHWHILE) * now else shares


def _factor(cost: Cost, images: int, seconds: float) -> float:
    if not images:
        return _HOPE
    expected = cost.of(images)
    return seconds / expected if seconds and expected else 1.0
