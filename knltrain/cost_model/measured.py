"""Times that were measured for some bytes and ranks, read for others."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.errors import ConfigError

Floats: TypeAlias = npt.NDArray[np.float64]


def interpolated(seconds: Mapping[int, float], size: float) -> float | None:
    """The seconds of so many bytes by the power between the two known sizes beside them.

    Beyond the known sizes it is that of the two last ones. None for fewer than two sizes.
    """
    if len(seconds) < 2:
        return None
    sizes = sorted(seconds)
    row = np.log([seconds[each] for each in sizes])
    return float(np.exp(_between(np.log(sizes), row, float(np.log(size)))))


@final
class MeasuredTimes:
    """Seconds by (bytes, ranks); for other bytes and ranks they follow powers of both.

    Between measured values the power is that of the two beside them. Beyond the last number of
    ranks it is that of all of them (least squares of logarithms), and beyond the bytes that of the
    two last ones. Raises ConfigError for fewer than two numbers of ranks or sizes, for ranks whose
    sizes differ, and for times that are not above zero or not finite.
    """

    def __init__(self, seconds: Mapping[tuple[int, int], float]) -> None:
        self._sizes = sorted({size for size, _ in seconds})
        self._ranks = sorted({ranks for _, ranks in seconds})
        if min(len(self._sizes), len(self._ranks)) < 2:
            raise ConfigError(
                f"times of {len(self._sizes)} sizes and {len(self._ranks)} numbers of ranks: "
                "expected at least two of each"
            )
        for size, ranks in product(self._sizes, self._ranks):
            if (size, ranks) not in seconds:
                raise ConfigError(
                    f"{size} bytes, {ranks} ranks: no time; expected one for every pair"
                )
            if min(size, ranks) < 1 or not 0 < seconds[size, ranks] < math.inf:
                raise ConfigError(
                    f"{size} bytes, {ranks} ranks, {seconds[size, ranks]} s: expected finite "
                    "numbers above zero"
                )
        self._logs = np.log([[seconds[size, rank] for rank in self._ranks] for size in self._sizes])

    def seconds(self, size: float, ranks: int) -> float:
        """The seconds of so many bytes over so many ranks; ConfigError for less than one."""
        if size < 1 or ranks < 1:
            raise ConfigError(f"{size} bytes, {ranks} ranks: expected at least one of each")
        by_size = [self._at_ranks(row, ranks) for row in self._logs]
        return float(np.exp(_between(np.log(self._sizes), by_size, float(np.log(size)))))

    def _at_ranks(self, row: Floats, ranks: int) -> float:
        known, wanted = np.log(self._ranks), float(np.log(ranks))
        if ranks <= self._ranks[-1]:
            return _between(known, row, wanted)
        slope, level = np.polyfit(known, row, 1)
        return float(slope * wanted + level)


def _between(known: Floats, row: Sequence[float] | Floats, at: float) -> float:
    """The value on the line through the two neighbours of a place, or through the last two."""
    place = min(max(bisect_left(list(known), at), 1), len(known) - 1)
    left, right = known[place - 1], known[place]
    return float(row[place - 1] + (row[place] - row[place - 1]) * (at - left) / (right - left))
