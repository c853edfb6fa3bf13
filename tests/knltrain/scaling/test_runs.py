"""What is read of the folders of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from knltrain.scaling.runs import results_of, scaled_runs


def test_figures_are_medians_and_rates_those_of_all_but_the_beginnings(
    run: Callable[..., Path],
) -> None:
    folders = [
        run("a", 2, [10.0, 12.0], 8, curve=[(1, 0.5)], train_seconds=4.0, iter_size=3),
        run("b", 2, [20.0], 8, train_seconds=2.0, test_accuracy=0.75, iter_size=3),
        run("c", 1, [5.0], 8),
    ]
    one, two = scaled_runs(folders, results_of(folders))
    assert (one.name, one.repeats, one.workers, one.batch) == ("c", 1, 1, 8)
    assert (two.name, two.repeats, two.batch, two.batch_per_worker) == ("a", 2, 24, 12.0)
    assert sorted(two.rates.tolist()) == [10.0, 12.0, 20.0]
    assert (two.images_per_second, two.per_worker) == (15.5, 7.75)
    assert (two.train_seconds, two.test_accuracy) == (3.0, 0.75)
    assert two.curve == ((1.0, 0.5),)
