"""Predicted exchanges of a network."""

from __future__ import annotations

from knltrain.cost_model.collectives import ring
from knltrain.cost_model.line import Link
from knltrain.cost_model.predicted import EXCHANGES, predicted


def test_each_number_of_ranks_has_a_row_with_all_algorithms() -> None:
    link = Link(1e-6, 1e-9)
    rows = predicted(link, 1000, [2, 8])
    assert [row["ranks"] for row in rows] == [2, 8]
    assert all(list(row["seconds"]) == list(EXCHANGES) for row in rows)
    assert rows[1]["seconds"]["ring"] == ring(link, 1000, 8)
