"""The seconds of a training step by a method, from its computing and its exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from knltrain.cost_model.overlap import AFTERWARDS, Overlap


@final
class MeasuredExchange:
    """What the exchange of a step takes over links of any speed, by measured ones.

    ``seconds`` are by GB/s of the link: what it adds to a step of so much `computing`, with which
    it is an `overlap`. Those of the fastest link are the work of processors, latency and sums;
    nothing hides them. They are `least_seconds`, unless these are given, as by steps of more
    computing. What a slower link adds is time on the link, as far as it is exposed. That lies on a
    line over 1 / (GB/s) through the two slowest, as α + β n does for one message. Where it would be
    negative the link lets bursts pass at once (token bucket), and it is 0, as with one link alone.
    """

    def __init__(
        self,
        seconds: Mapping[float, float],
        computing: float = 0.0,
        overlap: Overlap = AFTERWARDS,
        least_seconds: float | None = None,
    ) -> None:
        links = sorted(seconds, reverse=True)
        added = [max(0.0, seconds[link]) for link in links]
        self.least_seconds = added[0] if least_seconds is None else max(0.0, least_seconds)
        self._overlap = overlap
        self._slowest = [
            (1 / link, overlap.on_link(each - added[0], computing))
            for link, each in zip(links[-2:], added[-2:], strict=True)
        ]

    def on_link(self, link: float) -> float:
        """Return the seconds on a link of so many GB/s; not negative."""
        if len(self._slowest) == 1:
            return 0.0
        (near, before), (far, behind) = self._slowest
        slope = max(0.0, (behind - before) / (far - near))
        return max(0.0, before + slope * (1 / link - near))

    def seconds(self, link: float | None, computing: float, *, hides: bool = True) -> float:
        """Return what is added to a step of so much computing over a link, None for none.

        Unless it `hides`, all of it.
        """
        on_link = 0.0 if link is None else self.on_link(link)
        overlap = self._overlap if hides else AFTERWARDS
        return self.least_seconds + overlap.exposed(on_link, computing)
