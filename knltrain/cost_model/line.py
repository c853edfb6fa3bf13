"""The model of latency and bandwidth: a message of n bytes takes T(n) = α + β n seconds.

By this model You, Buluc, Demmel, "Scaling deep learning on GPU and Knights Landing clusters", SC17,
pack all layers into one message. L layers of n bytes in all take L α + β n one by one, and α + β n
packed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from knltrain.errors import ConfigError


@final
@dataclass(frozen=True, slots=True)
class Link:
    """α in seconds a message, β and γ in seconds a byte: γ for adding it up.

    ConfigError for negative ones, and for those that are not finite.
    """

    alpha: float
    beta: float
    gamma: float = 0.0

    def __post_init__(self) -> None:
        if not all(0 <= each < math.inf for each in (self.alpha, self.beta, self.gamma)):
            raise ConfigError(f"{self}: expected finite numbers of seconds, 0 or more")

    def message(self, size: float) -> float:
        """Seconds of a message of so many bytes."""
        return self.alpha + self.beta * size

    def seconds(self, sizes: Sequence[int]) -> float:
        """Return how long messages of so many bytes take, one after the other."""
        return len(sizes) * self.alpha + sum(sizes) * self.beta


def fit(seconds: Mapping[int, float]) -> Link | None:
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
        return Link(0.0, b / bb)
    if beta < 0:
        return Link(a / aa, 0.0)
    return Link(alpha, beta)


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
