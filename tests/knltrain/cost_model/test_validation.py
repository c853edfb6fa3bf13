"""The model beside published measurements."""

from __future__ import annotations

import pytest

from knltrain.cost_model.published import KNL_ALL_REDUCE, WeakScaling
from knltrain.cost_model.validation import fitted_beta, validated


def test_all_reduces_on_more_nodes_are_predicted_from_those_on_few() -> None:
    report = validated()
    assert len(report["all_reduce"]) == 10
    assert {row["ranks"] for row in report["all_reduce"]} == {16, 32}
    assert report["median_error"] <= 0.15
    for row in report["all_reduce"]:
        measured = row["measured_seconds"]
        assert measured == KNL_ALL_REDUCE[row["bytes"], row["ranks"]]
        assert row["predicted_seconds"] == pytest.approx(measured * (1 + row["error"]))


def test_weak_scaling_of_one_network_is_predicted_from_another() -> None:
    report = validated()
    rows = report["weak_scaling"]
    assert [row["network"] for row in rows] == ["vgg-19"] * 6 + ["googlenet"] * 6
    assert [row["is_fitted"] for row in rows] == [True] * 6 + [False] * 6
    assert report["largest_error_of_efficiency"] <= 0.03
    assert rows[-1]["measured_efficiency"] == pytest.approx(0.916, abs=0.0005)


def test_the_constant_is_that_of_a_tree() -> None:
    seconds = tuple(10 + 2 * level * 1e9 / 2e9 for level in range(7))
    assert fitted_beta(WeakScaling("a", 10**9, seconds)) == pytest.approx(1 / 2e9)
