"""A tree against visits to a master one after another (SC17): predicted and measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from knltrain.bench.exchange.contestants import IN_TURN, ONE_VISIT, TREE
from knltrain.bench.exchange.report import Measurement
from knltrain.cost_model.collectives import one_after_another, tree
from knltrain.cost_model.line import Link, fit

MOST_WORKERS: Final = 8
"""Up to so many are predicted."""


def _in_turn(link: Link, size: float, workers: int) -> float:
    """The center lies in memory, not at a worker: all workers visit it, not all but one."""
    return one_after_another(link, size, workers + 1)


FORMULAS: Final[Mapping[str, Callable[[Link, float, int], float]]] = {
    TREE: tree,
    IN_TURN: _in_turn,
}


def tree_and_turns(measured: Sequence[Measurement], workers: int) -> dict[str, Any]:
    """Return `alpha_seconds` and `beta_seconds` of a message, and `rows`, as JSON.

    A visit by one worker alone is two messages. Both exchanges are predicted from it for 2 to 8
    workers: as `by_line` by α and β, which are fitted to the visits of all sizes (None for a single
    size), and as `by_size` by the visit of the same size. `seconds` is what these `workers` took,
    None for other numbers.
    """
    visits = {each.size: _median(each, ONE_VISIT) for each in measured}
    visit = fit(visits)
    line = None if visit is None else Link(visit.alpha / 2, visit.beta / 2)
    return {
        "alpha_seconds": line and line.alpha,
        "beta_seconds": line and line.beta,
        "rows": [
            _row(name, each, visits[each.size], line, count, count == workers)
            for each in measured
            for count in sorted({*range(2, MOST_WORKERS + 1), workers})
            for name in FORMULAS
        ],
    }


def _row(
    name: str, each: Measurement, visit: float, line: Link | None, workers: int, is_measured: bool
) -> dict[str, Any]:
    formula = FORMULAS[name]
    return {
        "contestant": name,
        "bytes": each.size,
        "workers": workers,
        "by_line": None if line is None else formula(line, each.size, workers),
        "by_size": formula(Link(visit / 2, 0.0), each.size, workers),
        "seconds": _median(each, name) if is_measured else None,
    }


def _median(each: Measurement, name: str) -> float:
    return statistics.median(each.seconds[name])


def shown(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of 2, 4 and 8 workers, and those that were measured."""
    return [row for row in found["rows"] if row["workers"] in (2, 4, 8) or row["seconds"]]
