"""Results of `knltrain bench exchange`: a row for each size and contestant."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knltrain.bench.exchange.contestants import PEERS, Contestant
from knltrain.cost_model.line import fit
from knltrain.cost_model.measured import interpolated

Rounds = Sequence[float]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Vectors of one size: seconds by contestant, and a copy's bytes per second, by round.

    The copy's bytes are those that it reads and writes, of all workers together.
    """

    size: int
    seconds: Mapping[str, Rounds]
    copy: Rounds


def rows(
    measured: Sequence[Measurement], contestants: Sequence[Contestant], workers: int
) -> list[dict[str, Any]]:
    """A row per size and contestant.

    Shares and ratios are taken within each round, since clock rate and load are the same throughout
    it. The medians of these are not quite the quotients of the medians shown. `faster_than` are the
    times of the libraries divided by the contestant's own. `predicted_seconds` follow from the
    other sizes alone (`knltrain.cost_model.measured`), where there are two or more.
    """
    return [
        _row(each, contestant, contestant.members or workers, measured)
        for each in measured
        for contestant in contestants
    ]


def _row(
    measured: Measurement, contestant: Contestant, members: int, sweep: Sequence[Measurement]
) -> dict[str, Any]:
    seconds = measured.seconds[contestant.name]
    needed = contestant.accesses(members) * measured.size
    others = [name for name in measured.seconds if name in PEERS and name != contestant.name]
    median = statistics.median(seconds)
    return {
        "bytes": measured.size,
        "contestant": contestant.name,
        "seconds": median,
        "predicted_seconds": interpolated(
            {
                each.size: statistics.median(each.seconds[contestant.name])
                for each in sweep
                if each.size != measured.size
            },
            measured.size,
        ),
        "least_seconds": min(seconds),
        "gbytes_per_second": contestant.moved(members) * measured.size / median / 1e9,
        "memory_bytes": needed,
        "share_of_copy": statistics.median(
            needed / time / rate for time, rate in zip(seconds, measured.copy, strict=True)
        ),
        "faster_than": {name: _ratio(measured.seconds[name], seconds) for name in others}
        if contestant.exchanges
        else {},
        "rounds": list(seconds),
    }


def lines(
    measured: Sequence[Measurement], contestants: Sequence[Contestant]
) -> dict[str, dict[str, float] | None]:
    """Latency α in seconds and β in seconds per byte of each contestant that exchanges.

    Fitted to the medians over all sizes; None for a single size.
    """
    found: dict[str, dict[str, float] | None] = {}
    for each in contestants:
        if each.exchanges:
            times = {one.size: statistics.median(one.seconds[each.name]) for one in measured}
            line = fit(times)
            found[each.name] = (
                {"alpha_seconds": line.alpha, "beta_seconds": line.beta} if line else None
            )
    return found


def packing(
    packed: Measurement,
    layers: Measurement,
    sizes: Sequence[int],
    measured: Sequence[Measurement],
    contestants: Sequence[Contestant],
) -> list[dict[str, Any]]:
    """The gain of exchanging one packed vector instead of one for each layer, of bytes `sizes`.

    `predicted_gain` is that of the line fitted to the sweep's sizes up to the packed one.
    """
    below = [each for each in measured if each.size <= max(packed.size, measured[0].size)]
    found = []
    for each in (one for one in contestants if one.exchanges):
        line = fit({one.size: statistics.median(one.seconds[each.name]) for one in below})
        whole, parts = packed.seconds[each.name], layers.seconds[each.name]
        found.append(
            {
                "contestant": each.name,
                "packed_seconds": statistics.median(whole),
                "layers_seconds": statistics.median(parts),
                "gain": _ratio(parts, whole),
                "predicted_gain": line and line.seconds(sizes) / line.seconds([packed.size]),
                "packed_rounds": list(whole),
                "layers_rounds": list(parts),
            }
        )
    return found


def _ratio(values: Rounds, others: Rounds) -> float:
    return statistics.median(value / other for value, other in zip(values, others, strict=True))
