"""A tree and visits in turn, predicted from visits that are known beforehand."""

from __future__ import annotations

import pytest

from knltrain.bench.exchange.contestants import IN_TURN, ONE_VISIT, TREE
from knltrain.bench.exchange.masters import shown, tree_and_turns
from knltrain.bench.exchange.report import Measurement

ALPHA, BETA = 1e-6, 1e-9


def measured(size: int, visit: float) -> Measurement:
    """So many seconds of a visit in the middle one of three rounds."""
    seconds = {ONE_VISIT: [0.0, visit, 9.0], TREE: [1.0, 2.0, 3.0], IN_TURN: [4.0, 5.0, 6.0]}
    return Measurement(size, seconds, [1.0] * 3)


def test_both_follow_from_visits_of_two_messages() -> None:
    sizes = (1000, 100_000, 10_000_000)
    found = tree_and_turns([measured(size, 2 * (ALPHA + BETA * size)) for size in sizes], 4)
    assert found["alpha_seconds"] == pytest.approx(ALPHA)
    assert found["beta_seconds"] == pytest.approx(BETA)
    rows = {(row["contestant"], row["bytes"], row["workers"]): row for row in found["rows"]}
    for size in sizes:
        message = ALPHA + BETA * size
        for workers, levels in zip(range(2, 9), (1, 2, 2, 3, 3, 3, 3), strict=True):
            tree, turns = rows[TREE, size, workers], rows[IN_TURN, size, workers]
            assert tree["by_line"] == pytest.approx(2 * levels * message)
            assert turns["by_line"] == pytest.approx(2 * workers * message)
            assert (tree["by_size"], turns["by_size"]) == pytest.approx(
                (tree["by_line"], turns["by_line"])
            )
            expected = (2.0, 5.0) if workers == 4 else (None, None)
            assert (tree["seconds"], turns["seconds"]) == expected


def test_the_visit_of_a_size_counts_where_the_line_misses_it() -> None:
    found = tree_and_turns([measured(1000, 1.0), measured(2000, 1.0), measured(4000, 7.0)], 2)
    last = [row for row in found["rows"] if row["bytes"] == 4000 and row["workers"] == 2]
    assert [row["by_size"] for row in last] == pytest.approx([7.0, 14.0])
    assert all(row["by_line"] < row["by_size"] for row in last)


def test_of_one_size_there_is_no_line_and_more_workers_are_told_too() -> None:
    found = tree_and_turns([measured(1000, 1.0)], 12)
    assert (found["alpha_seconds"], found["rows"][0]["by_line"]) == (None, None)
    assert {row["workers"] for row in found["rows"]} == {*range(2, 9), 12}
    assert [row["workers"] for row in shown(found)] == [2, 2, 4, 4, 8, 8, 12, 12]
