"""Which workers are stragglers: slow all the time, or late now and then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any, Final

_SLOW: Final = 1.05
"""A worker that computes so many times as long as the median worker is slow..."""

_OFTEN: Final = 0.75
"""... all the time, if it was the last in this share of the steps, or in twice the share of chance,
where that is known."""


def slow_ranks(ranks: Sequence[Mapping[str, Any]]) -> list[int]:
    """The numbers of persistent stragglers, of the `ranks` of a profile; the slowest first."""
    computing = _computing(ranks)
    usual = _usual(computing)
    ordered = sorted(computing, key=lambda each: -each["useful_seconds"])
    return [each["rank"] for each in ordered if _is_slow(each, usual, len(ranks))]


def told_of_stragglers(ranks: Sequence[Mapping[str, Any]]) -> str:
    """Tell a persistent straggler from noise, in a sentence."""
    usual, named = _usual(_computing(ranks)), {each["rank"]: each for each in ranks}
    said = []
    for number in slow_ranks(ranks):
        rank = named[number]
        often = rank["last_share"]
        last = "" if often is None else f", last in {100 * often:.0f} % of the steps"
        more = 100 * (rank["useful_seconds"] / usual - 1)
        said.append(f"worker {number} (computes {more:.0f} % longer than the median one{last})")
    if said:
        return f"persistent stragglers: {'; '.join(said)}"
    late = max(ranks, key=lambda each: each["late_steps"])
    noise = f"worker {late['rank']} was late in {late['late_steps']} of {late['steps']} steps"
    return f"no persistent straggler; noise: {noise if late['late_steps'] else 'no late steps'}"


def _computing(ranks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that have images: by shares of a batch, some workers may have none."""
    return [each for each in ranks if each["classes"]["gradient"]]


def _usual(ranks: Sequence[Mapping[str, Any]]) -> float:
    """The computing time of the median worker; of two that of the faster one."""
    return float(median_low(each["useful_seconds"] for each in ranks)) if ranks else 0.0


def _is_slow(rank: Mapping[str, Any], usual: float, workers: int) -> bool:
    often = rank["last_share"]
    is_often = often is None or often >= min(_OFTEN, 2 / workers)
    return rank["useful_seconds"] > _SLOW * usual and is_often
