"""The seconds of a training step by a method, from its computing and its exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np

from knltrain.cost_model.overlap import AFTERWARDS, Overlap


@final
class MeasuredExchange:
    """What the exchange of a step takes over links of any speed, by measured ones.

    ``seconds`` are by GB/s of the link: what it adds to a step of so much `computing`, with which
    it is an `overlap`. Those of the fastest link, `least_seconds`, are the work of processors,
    latency and sums; nothing hides them. What a slower link adds is time on the link, as far as it
    is exposed. Between measured links that lies on a line over 1 / (GB/s), as α + β n does for one
    message, and beyond them on the line of the two nearest. With one link alone there is none.
    """

    def __init__(
        self,
        seconds: Mapping[float, float],
        computing: float = 0.0,
        overlap: Overlap = AFTERWARDS,
    ) -> None:
        links = sorted(seconds, reverse=True)
        added = [max(0.0, seconds[link]) for link in links]
        self.least_seconds, self._overlap = added[0], overlap
        self._inverse = 1 / np.array(links)
        self._on_link = np.array(
            [overlap.on_link(each - self.least_seconds, computing) for each in added]
        )

    def on_link(self, link: float) -> float:
        """Return the seconds on a link of so many GB/s; not negative."""
        if len(self._on_link) == 1:
            return 0.0
        at, known = 1 / link, self._inverse
        place = min(max(int(np.searchsorted(known, at)), 1), len(known) - 1)
        left, right = self._on_link[place - 1], self._on_link[place]
        share = (at - known[place - 1]) / (known[place] - known[place - 1])
        return max(0.0, float(left + (right - left) * share))

    def seconds(self, link: float | None, computing: float, *, hides: bool = True) -> float:
        """Return what is added to a step of so much computing over a link, None for none.

        Unless it `hides`, all of it.
        """
        on_link = 0.0 if link is None else self.on_link(link)
        overlap = self._overlap if hides else AFTERWARDS
        return self.least_seconds + overlap.exposed(on_link, computing)
