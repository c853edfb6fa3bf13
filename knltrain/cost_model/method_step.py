"""The seconds of a training step by a method, from its computing and its exchange."""

from __future__ import annotations

from collections.abc import Mapping

from knltrain.cost_model.line import Link, fit

LEAST_SECONDS = 1e-6
"""An exchange that was measured as shorter counts as so long."""


def exchange_of(extra_seconds: Mapping[float, float]) -> Link:
    """Return the exchange of a step by what it takes over links of some GB/s.

    Its `alpha` are the seconds that do not depend on the link: latency, copies, sums, and the work
    of processors for the network. Its `beta` are the GB that pass the link one after another. With
    one link alone all counts as `alpha`.
    """
    seconds = {1 / link: max(each, LEAST_SECONDS) for link, each in extra_seconds.items()}
    return fit(seconds) or Link(next(iter(seconds.values())), 0.0)


def step_seconds(computing: float, exchange: Link, link: float | None, *, overlaps: bool) -> float:
    """Predict a step of so much `computing` over a link of so many GB/s, None for none.

    Where the exchange `overlaps` with computing, the time on the link is hidden behind it, as far
    as computing lasts. The rest of an exchange is work of the same cores, and is not.
    """
    on_link = 0.0 if link is None else exchange.beta / link
    hidden = min(on_link, computing) if overlaps else 0.0
    return computing + exchange.alpha + on_link - hidden
