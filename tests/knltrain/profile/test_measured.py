from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from profiles.material import all_of, measure

from knltrain.exchange.transports.team import Team
from knltrain.profile import measured
from knltrain.profile.measured import (
    WorkerMeasure,
    WorkersMeasured,
    gathered,
    lacking,
    statistics_of,
    thirds_of,
)

InThreads = Callable[..., list[Any]]


def test_statistics_are_over_the_steps() -> None:
    steps = np.arange(101.0)
    found = statistics_of(np.stack([steps, 2 * steps], axis=1))
    assert_array_equal(found[:, 0], [50, 50, 5, 95, 100])
    assert_array_equal(found[:, 1], 2 * found[:, 0])


def test_thirds_without_steps_are_zero() -> None:
    assert_array_equal(thirds_of(np.arange(1.0, 8.0)), [2.0, 4.5, 6.5])
    assert_array_equal(thirds_of(np.array([2.0])), [2.0, 0.0, 0.0])


def assert_equal(found: WorkersMeasured, expected: WorkersMeasured) -> None:
    assert found.figures == expected.figures
    assert found.like_own == expected.like_own
    for name in (
        "class_seconds",
        "step_seconds",
        "thirds",
        "regions",
        "exchanges",
        "by_rank",
        "visits",
    ):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    assert found.last_shares == expected.last_shares


def test_rank_0_comes_to_know_what_all_have_measured(in_threads: InThreads) -> None:
    own = [measure(1.0), measure(2.0, waiting=0.25)]
    found = in_threads(8, 2, lambda team: gathered(team, own[team.rank], in_step=True))
    assert_equal(found[0], all_of(*own))


def test_windows_of_other_lengths_and_other_regions_hold_nobody_up(in_threads: InThreads) -> None:
    """As with workers that end by the steps of all together, and with unlike backends."""

    def work(team: Team) -> WorkersMeasured:
        own = measure(steps=6 - 2 * team.rank)
        if team.rank:
            figures = own.figures._replace(regions_key=8.0)
            none = np.zeros((5, 0))
            own = own._replace(figures=figures, calls=np.zeros(0), region_seconds=none)
        return gathered(team, own, in_step=False)

    first = in_threads(8, 2, work)[0]
    assert first.like_own == [0]
    assert_allclose(first.regions, measure().region_seconds)
    assert [each.steps for each in first.figures] == [6, 4]
    assert first.last_shares is None


def test_of_many_workers_only_sums_are_exchanged(
    in_threads: InThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "MOST_RANKS", 1)
    own = [measure(1.0), measure(3.0)]
    found = in_threads(8, 2, lambda team: gathered(team, own[team.rank], in_step=True))[0]
    assert found.by_rank is found.last_shares is None
    assert_allclose(found.regions, all_of(*own).regions)


def test_times_of_exchanges_are_means_over_the_workers_that_timed_any(
    in_threads: InThreads,
) -> None:
    """A worker without images has none, and sends zeros."""
    none = measure().figures._replace(exchanges=0)
    idle = measure()._replace(figures=none, exchange_seconds=np.zeros((3, 1)))

    def found(*own: WorkerMeasure) -> WorkersMeasured:
        known = in_threads(8, 2, lambda team: gathered(team, own[team.rank], in_step=True))
        return cast("WorkersMeasured", known[0])

    timed = found(measure(), idle).exchanges
    assert timed is not None
    assert_allclose(timed, measure().exchange_seconds)
    assert found(idle, idle).exchanges is None


def test_workers_without_a_step_are_named(in_threads: InThreads) -> None:
    found = in_threads(8, 3, lambda team: lacking(team, 2 * (team.rank % 2)))
    assert found == [[0, 2]] * 3
