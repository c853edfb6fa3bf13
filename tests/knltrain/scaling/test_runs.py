"""What is read of the folders of runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knltrain.errors import RunFolderError
from knltrain.scaling.runs import results_of, scaled_runs

Run = Callable[..., Path]


def test_figures_are_medians_and_rates_those_of_all_but_the_beginnings(
    run: Run,
) -> None:
    folders = [
        run("a", 2, [10.0, 12.0], 8, curve=[(1, 0.5)], train_seconds=4.0, iter_size=3),
        run("b", 2, [20.0], 8, train_seconds=2.0, test_accuracy=0.75, iter_size=3),
        run("c", 1, [5.0], 8),
    ]
    one, two = scaled_runs(folders, results_of(folders), [{}] * 3)
    assert (one.name, one.repeats, one.workers, one.batch) == ("c", 1, 1, 8)
    assert (two.name, two.repeats, two.batch, two.batch_per_worker) == ("a", 2, 24, 12.0)
    assert sorted(two.rates.tolist()) == [10.0, 12.0, 20.0]
    assert (two.images_per_second, two.per_worker) == (15.5, 7.75)
    assert (two.train_seconds, two.test_accuracy) == (3.0, 0.75)
    assert two.curve == ((1.0, 0.5),)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("workers", 0, "a whole number above 0"),
        ("workers", -2, "a whole number above 0"),
        ("nodes", 1.5, "a whole number above 0"),
        ("batch", None, "a whole number above 0"),
        ("iter_size", True, "a whole number above 0"),
        ("batch", 10**200, "a whole number above 0"),
        ("images_per_second", 0.0, "a number above 0"),
        ("images_per_second", float("nan"), "a number above 0"),
        ("communication_share", float("inf"), "a number of 0 or more"),
        ("train_seconds", "12", "a number of 0 or more"),
    ],
)
def test_figures_that_no_run_writes_are_named(
    run: Run, name: str, value: Any, expected: str
) -> None:
    folder = run("odd", 1, [1.0], 8)
    result = folder / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), name: value}))
    told = f"odd/result.json: {name} is {str(value)[:60]}: expected {expected}"
    with pytest.raises(RunFolderError, match=told):
        results_of([folder])


def test_a_result_without_a_batch_is_refused(run: Run) -> None:
    folder = run("odd", 1, [1.0], 8)
    result = folder / "result.json"
    result.write_text(result.read_text().replace('"batch"', '"bach"'))
    with pytest.raises(RunFolderError, match="batch is None: expected a whole number above 0"):
        results_of([folder])


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ('{"kind": "train"}', "images_per_second is None: expected a number of 0 or more"),
        ('{"kind": "train", "images_per_second": NaN}', "images_per_second is nan"),
        ('{"kind": "train", "images_per_second": null}', "images_per_second is None"),
        ('{"kind": "test", "seconds": 1, "accuracy": "high"}', "accuracy is high"),
        ('{"kind": "test", "accuracy": 1}', "seconds is None"),
    ],
)
def test_records_that_no_run_writes_are_named_with_their_line(
    run: Run, record: str, told: str
) -> None:
    folder = run("odd", 1, [1.0], 8)
    with (folder / "metrics-0.jsonl").open("a") as file:
        file.write(f"{record}\n")
    with pytest.raises(RunFolderError, match=f"odd/metrics-0.jsonl, line 3: {told}"):
        scaled_runs([folder], results_of([folder]), [{}])


def test_records_of_other_kinds_are_passed_over(run: Run) -> None:
    folder = run("odd", 1, [3.0], 8)
    with (folder / "metrics-0.jsonl").open("a") as file:
        file.write('{"kind": ["own"]}\n{"note": 1}\n')
    (found,) = scaled_runs([folder], results_of([folder]), [{}])
    assert found.rates.tolist() == [3.0]
