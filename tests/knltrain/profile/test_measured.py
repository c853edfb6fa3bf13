from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal
from profiles.material import measure

from knltrain.exchange.transports.team import Team
from knltrain.profile.measured import gathered, statistics_of


def test_statistics_are_over_the_steps() -> None:
    steps = np.arange(101.0)
    found = statistics_of(np.stack([steps, 2 * steps], axis=1))
    assert_array_equal(found[:, 0], [50, 50, 5, 95, 100])
    assert_array_equal(found[:, 1], 2 * found[:, 0])


def test_all_workers_come_to_know_all_measures(in_threads: Callable[..., list[Any]]) -> None:
    own = [measure(1.0), measure(2.0, waiting=0.25)]
    everywhere = in_threads(8, 2, lambda team: gathered(team, own[team.rank]))
    for found in everywhere:
        for some, expected in zip(found, own, strict=True):
            for one, other in zip(some, expected, strict=True):
                assert_array_equal(one, other)


def test_a_worker_with_fewer_regions_lacks_the_others(in_threads: Callable[..., list[Any]]) -> None:
    def work(team: Team) -> Any:
        own = measure()
        if team.rank == 1:
            own = own._replace(calls=own.calls[:1], region_seconds=own.region_seconds[:, :1])
        return gathered(team, own)

    first, second = in_threads(8, 2, work)[0]
    assert np.isfinite(first.region_seconds).all()
    assert np.isfinite(second.region_seconds[:, 0]).all()
    assert np.isnan(second.region_seconds[:, 1:]).all()
