"""The model of latency and bandwidth: a message of n bytes takes T(n) = α + β n seconds.

By this model You, Buluc, Demmel, "Scaling deep learning on GPU and Knights Landing clusters", SC17,
pack all layers into one message. L layers of n bytes in all take L α + β n one by one, and α + β n
packed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """α in seconds, β in seconds per byte."""

    alpha: float
    beta: float

    def seconds(self, sizes: Sequence[int]) -> float:
        """Return how long messages of so many bytes take, one after the other."""
        return len(sizes) * self.alpha + sum(sizes) * self.beta


def fit(seconds: Mapping[int, float]) -> Line | None:
    """Return the line through times by bytes with the least squares of relative errors.

    Neither α nor β is negative. None for fewer than two sizes.
    """
    if len(seconds) < 2:
        return None
    # Of 1 = α / t + β n / t: each size counts the same, however long it takes.
    ones = [1 / time for time in seconds.values()]
    sizes = [size / time for size, time in seconds.items()]
    aa, ab, bb = _product(ones, ones), _product(ones, sizes), _product(sizes, sizes)
    a, b = sum(ones), sum(sizes)
    determinant = aa * bb - ab * ab
    alpha, beta = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    if alpha < 0:
        return Line(0.0, b / bb)
    if beta < 0:
        return Line(a / aa, 0.0)
    return Line(alpha, beta)


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
