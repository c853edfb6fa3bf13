"""Efficiency of runs, from their folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from knltrain.errors import RunFolderError
from knltrain.scaling.report import scaling_of

Run = Callable[..., Path]


def test_efficiency_is_by_worker_of_the_smallest_run(runs: list[Path]) -> None:
    report = scaling_of(runs)
    assert report["scaling"] == "weak"
    one, two = report["rows"]
    assert [row["run"] for row in (one, two)] == ["one", "two"]
    assert (one["nodes"], two["nodes"]) == (1, 2)
    assert (one["efficiency"], one["lowest_efficiency"]) == (1.0, None)
    assert two["efficiency"] == pytest.approx(0.75)
    assert 0.73 < two["lowest_efficiency"] < 0.75 < two["highest_efficiency"] < 0.77
    assert report == scaling_of(runs)


@pytest.mark.parametrize(("batch", "expected"), [(64, "weak"), (32, "strong"), (48, "mixed")])
def test_the_kind_of_scaling_follows_from_the_batches(
    runs: list[Path], run: Run, batch: int, expected: str
) -> None:
    assert scaling_of([runs[1], run("other", 2, [150.0], batch)])["scaling"] == expected


def test_short_runs_have_no_interval(runs: list[Path], run: Run) -> None:
    row = scaling_of([runs[1], run("other", 4, [300.0, 310.0], 128)])["rows"][1]
    assert row["lowest_efficiency"] is row["highest_efficiency"] is None
    assert row["efficiency"] > 0.7


def test_equal_runs_are_one_by_their_median(run: Run) -> None:
    ones = [run(f"one-{n}", 1, [speed] * 3, 32) for n, speed in enumerate((90.0, 100.0, 170.0))]
    one, two = scaling_of([run("two", 2, [150.0] * 6, 64), *ones])["rows"]
    assert (one["run"], one["repeats"], one["images_per_second"]) == ("one-0", 3, 100.0)
    assert (two["repeats"], two["efficiency"]) == (1, 0.75)
    assert two["lowest_efficiency"] < two["highest_efficiency"]


def test_runs_of_several_batches_are_compared_with_those_of_as_many_images(run: Run) -> None:
    folders = [
        run("a", 1, [100.0], 32), run("b", 1, [120.0], 64), run("c", 2, [180.0], 64),
        run("d", 2, [200.0], 128), run("e", 2, [90.0], 32), run("f", 4, [100.0], 40),
    ]  # fmt: skip
    rows = {row["run"]: row for row in scaling_of(folders)["rows"]}
    names = list(rows)
    against = {name: names[row["base"]] for name, row in rows.items()}
    assert against == {"a": "a", "b": "b", "c": "a", "d": "b", "e": "a", "f": "a"}
    assert rows["d"]["efficiency"] == pytest.approx(200 / 2 / 120)
    assert rows["f"]["efficiency"] == pytest.approx(0.25)


def test_strong_scaling_compares_runs_of_one_batch_with_that_of_the_fewest_workers(
    run: Run,
) -> None:
    sizes = {"a": (1, 1, 64), "b": (2, 1, 64), "c": (2, 2, 64), "d": (4, 2, 64), "e": (1, 1, 128)}
    sizes["f"] = (2, 1, 128)
    folders = [
        run(name, workers, [10.0 * workers], batch, nodes=nodes)
        for name, (workers, nodes, batch) in sizes.items()
    ]
    rows = scaling_of(folders, "strong")["rows"]
    against = {row["run"]: rows[row["base"]]["run"] for row in rows}
    assert against == {"a": "a", "b": "a", "c": "a", "d": "a", "e": "e", "f": "e"}
    assert {row["efficiency"] for row in rows} == {1.0}


def test_runs_with_as_many_workers_are_not_compared(run: Run) -> None:
    folders = [run("a", 2, [1.0], 64), run("b", 2, [1.0], 64, nodes=2), run("c", 4, [1.0], 96)]
    assert [row["base"] for row in scaling_of(folders)["rows"]] == [0, 1, 0]


def test_runs_of_other_settings_are_not_taken_together(run: Run) -> None:
    folders = [
        run("a", 1, [1.0] * 3, 32, config="seed = 1\nruns_folder = 'x'\nworkers = 1"),
        run("b", 1, [1.0] * 3, 32, config="seed = 2\nworkers = 1"),
        run("c", 1, [1.0] * 3, 32, config="[optimizer]\nname = 'adam'"),
        run("d", 1, [1.0] * 3, 32, config="exchange.moving_rate = 0.2"),
        run("two", 2, [4.0] * 3, 64, threads=2),
        run("three", 2, [4.0] * 3, 64, threads=1),
    ]
    rows = scaling_of(folders)["rows"]
    found = [(row["run"], row["repeats"]) for row in rows]
    assert sorted(found) == [("a", 2), ("c", 1), ("d", 1), ("three", 1), ("two", 1)]


def test_what_runs_differ_in_besides_is_told(runs: list[Path], run: Run) -> None:
    assert scaling_of(runs)["notes"] == []
    report = scaling_of([run("own", 1, [9.0], 32, threads=2), run("other", 4, [9.0], 32)])
    (note,) = report["notes"]
    assert note == "note: runs differ in threads of a worker: 2 (own), none (other)"


def test_accuracies_on_the_way_are_told(run: Run) -> None:
    folders = [run("one", 1, [100.0], 32, curve=[(1.5, 0.5), (3.0, 0.7)]), run("two", 2, [1.0], 64)]
    one, two = scaling_of(folders)["rows"]
    assert one["accuracy_by_seconds"] == [[1.5, 0.5], [3.0, 0.7]]
    assert two["accuracy_by_seconds"] == []


def test_runs_that_cannot_be_compared_are_refused(
    runs: list[Path], run: Run, tmp_path: Path
) -> None:
    with pytest.raises(RunFolderError, match="different numbers of workers; these have 1"):
        scaling_of(runs[1:])
    other = run("other", 4, [300.0], 128, method="easgd")
    with pytest.raises(RunFolderError, match=r"differ in method: sync_sgd \(two\), easgd"):
        scaling_of([*runs, other])
    with pytest.raises(RunFolderError, match="the run has not come to its end"):
        scaling_of([tmp_path])
    with pytest.raises(RunFolderError, match="one is named twice: expected each run once"):
        scaling_of([*runs, runs[1].parent / "two" / ".." / "one"])


def test_a_run_that_stood_still_at_times_has_no_interval(run: Run) -> None:
    rates = [0.0] * 5
    folders = [run("one", 1, rates, 32, images_per_second=1.0), run("two", 2, [1.0] * 5, 64)]
    row = scaling_of(folders)["rows"][1]
    assert row["lowest_efficiency"] is row["highest_efficiency"] is None
