from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from knltrain.bench.methods.entrants import Entrant
from knltrain.bench.methods.one_run import RunFigures
from knltrain.bench.methods.report import rows
from knltrain.bench.methods.task import task_named


@pytest.fixture
def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["entrant"]: row for row in report["rows"]}


def test_time_to_an_accuracy_is_that_of_the_first_evaluation_with_it(
    by_name: dict[str, dict[str, Any]],
) -> None:
    ours = by_name["sync_easgd"]
    assert ours["seconds_to_accuracy"] == 6.5  # of 8 and 5
    assert ours["epochs_to_accuracy"] == 0.75
    assert ours["rounds_with_accuracy"] == 2
    assert (ours["accuracy"], ours["least_accuracy"]) == (0.985, 0.98)


def test_ratios_are_taken_within_rounds(by_name: dict[str, dict[str, Any]]) -> None:
    assert by_name["sync_easgd"]["faster_than_one"] == (20 / 8 + 30 / 5) / 2
    assert by_name["one worker"]["faster_than_one"] == 1.0
    assert by_name["sync_easgd"]["faster_than_original"] == 16 / 8  # the other never had it


def test_who_never_had_the_accuracy_in_half_of_the_rounds_has_no_time(
    by_name: dict[str, dict[str, Any]],
) -> None:
    original = by_name["original_easgd"]
    assert original["seconds_to_accuracy"] is None
    assert original["rounds_with_accuracy"] == 1
    assert original["faster_than_one"] == 20 / 16


def test_costs_are_medians_and_the_share_is_the_runs_own(
    by_name: dict[str, dict[str, Any]],
) -> None:
    ours = by_name["sync_easgd"]
    assert ours["cost_seconds"]["waiting"] == 1.5
    assert ours["cost_seconds"]["gradient"] == 1.0
    assert ours["clocks_share"] == pytest.approx(0.94)  # the worse worker's, median of two rounds
    assert ours["communication_share"] == pytest.approx((3 / 8 + 2 / 10) / 2)


def test_processor_time_of_communication_is_what_workers_that_never_meet_do_not_need(
    runs: dict[str, list[RunFigures]], by_name: dict[str, dict[str, Any]]
) -> None:
    assert by_name["sync_easgd"]["processor_seconds"] == pytest.approx(3 * 9 / 10)
    assert by_name["sync_easgd"]["communication_processor_seconds"] is None
    everyone = [Entrant(name, name, 2) for name in ("none", "sync_easgd")]
    theirs = {"none": runs["one worker"][::-1], "sync_easgd": runs["original_easgd"]}
    idle, ours = rows(everyone, theirs, task_named("lenet", None), 0.97)
    assert idle["communication_processor_seconds"] == 0
    found = ours["communication_processor_seconds"]
    assert found == pytest.approx(0.3 * ((16 - 30) + (40 - 20)) / 2)


def test_a_step_that_was_foreseen_is_told_as_images_per_second(
    by_name: dict[str, dict[str, Any]],
) -> None:
    assert by_name["sync_easgd"]["predicted_images_per_second"] == 64 / 0.5
    assert by_name["original_easgd"]["predicted_images_per_second"] is None


def test_a_failure_in_any_round_is_all_that_is_told(by_name: dict[str, dict[str, Any]]) -> None:
    failed = by_name["async_sgd"]
    assert failed["failure"] == "worker 1 failed: step 7"
    assert "accuracy" not in failed


def test_curves_are_those_of_all_rounds(by_name: dict[str, dict[str, Any]]) -> None:
    assert by_name["original_easgd"]["curves"] == [
        {"seconds": [16.0], "epoch": [0.5], "accuracy": [0.99]},
        {"seconds": [15.0, 40.0], "epoch": [0.5, 1.0], "accuracy": [0.9, 0.96]},
    ]


def test_a_row_tells_how_the_run_has_learnt() -> None:
    task = task_named("lenet", None)
    everyone = [Entrant("sync_sgd", "sync_sgd", 2)]
    failed = {"sync_sgd": [RunFigures({}, (), "diverged")]}
    strong, weak = (rows(everyone, failed, task, 0.9, scaling)[0] for scaling in ("strong", "weak"))
    assert (strong["batch"], weak["batch"]) == (64, 128)
    assert strong["settings"]["learning_rate"] == 0.02
    assert weak["settings"]["learning_rate"] == 0.04
    assert (strong["settings"]["warmup_epochs"], weak["settings"]["warmup_epochs"]) == (0, 1)
    (short,) = rows(everyone, failed, replace(task, epochs=1), 0.9, "weak")
    assert short["settings"]["warmup_epochs"] == 0.5
