"""The model beside published measurements that it was not fitted to."""

from __future__ import annotations

import statistics
from typing import Any, Final

from knltrain.cost_model.collectives import levels, tree
from knltrain.cost_model.line import Link
from knltrain.cost_model.measured import MeasuredTimes
from knltrain.cost_model.published import KNL_ALL_REDUCE, SC17_NODES, SC17_ROWS, WeakScaling

MOST_KNOWN_RANKS: Final = 8
"""The table is made of so many ranks at most; more are predicted."""


def validated() -> dict[str, Any]:
    """The report, as JSON: `all_reduce` and `weak_scaling` rows, predicted beside measured.

    - Of DeepBench's all-reduces on Xeon Phi, 16 and 32 nodes are predicted from 2 to 8.
    - Of SC17's weak scaling, one constant, the bandwidth of a tree, is fitted to VGG-19, and
      GoogLeNet is predicted.
    """
    reduces, (fitted, predicted) = _all_reduces(), SC17_ROWS
    beta = fitted_beta(fitted)
    scaled = [row for each in (fitted, predicted) for row in _scaled(each, beta, each is fitted)]
    errors = [abs(row["error"]) for row in reduces]
    points = [abs(row["error"]) for row in scaled if not row["is_fitted"]]
    return {
        "all_reduce": reduces,
        "median_error": statistics.median(errors),
        "largest_error": max(errors),
        "weak_scaling": scaled,
        "tree_gbytes_per_second": 1e-9 / beta,
        "largest_error_of_efficiency": max(points),
    }


def fitted_beta(row: WeakScaling) -> float:
    """β of a tree by which an iteration is as long as measured, by least squares of seconds."""
    moved = [2 * levels(nodes) * row.parameter_bytes for nodes in SC17_NODES]
    extra = [seconds - row.seconds[0] for seconds in row.seconds]
    products = sum(a * b for a, b in zip(moved, extra, strict=True))
    return products / sum(each * each for each in moved)


def _all_reduces() -> list[dict[str, Any]]:
    known = {at: each for at, each in KNL_ALL_REDUCE.items() if at[1] <= MOST_KNOWN_RANKS}
    times = MeasuredTimes(known)
    return [
        _row(size, ranks, times.seconds(size, ranks), measured)
        for (size, ranks), measured in KNL_ALL_REDUCE.items()
        if ranks > MOST_KNOWN_RANKS
    ]


def _row(size: int, ranks: int, predicted: float, measured: float) -> dict[str, Any]:
    return {
        "bytes": size,
        "ranks": ranks,
        "predicted_seconds": predicted,
        "measured_seconds": measured,
        "error": predicted / measured - 1,
    }


def _scaled(row: WeakScaling, beta: float, is_fitted: bool) -> list[dict[str, Any]]:
    link, alone = Link(0.0, beta), row.seconds[0]
    found = []
    for nodes, seconds in zip(SC17_NODES[1:], row.seconds[1:], strict=True):
        expected = alone / (alone + tree(link, row.parameter_bytes, nodes))
        found.append(
            {
                "network": row.network,
                "nodes": nodes,
                "is_fitted": is_fitted,
                "predicted_efficiency": expected,
                "measured_efficiency": alone / seconds,
                "error": expected - alone / seconds,
            }
        )
    return found
