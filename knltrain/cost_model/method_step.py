"""The seconds of a training step by a method, from its computing and its exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np


@final
class MeasuredExchange:
    """What the exchange of a step takes over links of any speed, by measured ones.

    ``seconds`` are by GB/s of the link. Between measured links they lie on a line over 1 / (GB/s),
    as α + β n does for one message. Beyond them they lie on the line of the two nearest. With one
    link alone they are those of all. `least_seconds` are those of the fastest measured link: the
    work of processors, latency and sums more than time on the link.
    """

    def __init__(self, seconds: Mapping[float, float]) -> None:
        links = sorted(seconds)
        self._inverse = 1 / np.array(links[::-1])
        self._seconds = np.maximum([seconds[link] for link in links[::-1]], 0.0)
        self.least_seconds = float(self._seconds[0])

    def seconds(self, link: float) -> float:
        """Return the seconds over a link of so many GB/s; not negative."""
        if len(self._seconds) == 1:
            return self.least_seconds
        at, known = 1 / link, self._inverse
        place = min(max(int(np.searchsorted(known, at)), 1), len(known) - 1)
        left, right = self._seconds[place - 1], self._seconds[place]
        share = (at - known[place - 1]) / (known[place] - known[place - 1])
        return max(0.0, float(left + (right - left) * share))


def step_seconds(
    computing: float, exchange: MeasuredExchange, link: float | None, *, overlaps: bool
) -> float:
    """Predict a step of so much `computing` over a link of so many GB/s, None for none.

    Where the exchange `overlaps` with computing, what it takes longer than over the fastest link is
    hidden behind computing, as far as that lasts. The rest is work of the same cores.
    """
    whole = exchange.least_seconds if link is None else exchange.seconds(link)
    on_link = max(0.0, whole - exchange.least_seconds)
    hidden = min(on_link, computing) if overlaps else 0.0
    return computing + whole - hidden
