"""Shares that let the slowest worker be done soonest."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as some

from knltrain.balance.shares import (
    WORTHWHILE,
    Cost,
    cost_of,
    fitted_shares,
    refitted,
    step_seconds,
)

SECONDS = some.floats(0, 10, allow_nan=False)
COSTS = some.lists(
    some.builds(Cost, SECONDS, some.floats(0.001, 10, allow_nan=False)), min_size=1, max_size=3
)


@given(COSTS, some.integers(1, 12), some.integers(1, 6))
def test_no_other_shares_end_sooner(costs: list[Cost], batch: int, granule: int) -> None:
    found = fitted_shares(costs, batch, granule)
    assert sum(found) == batch
    assert min(found) >= 0
    assert found[0] > 0
    assert sum(images % granule > 0 for images in found) <= 1
    if batch % granule:
        return
    counts = range(batch // granule + 1)
    all_shares = (
        [count * granule for count in each]
        for each in itertools.product(counts, repeat=len(costs))
        if sum(each) * granule == batch and each[0]
    )
    best = min(step_seconds(costs, shares) for shares in all_shares)
    assert step_seconds(costs, found) == pytest.approx(best)


@pytest.mark.parametrize(
    ("speeds", "batch", "expected"),
    [
        ((4, 1), 240, (192, 48)),
        ((1, 4), 240, (48, 192)),
        ((1, 1, 4, 4), 480, (48, 48, 192, 192)),
        ((1, 1), 64, (32, 32)),
        ((20, 1), 256, (256, 0)),  # one granule would take the slow one longer than all the fast
        ((1, 20), 256, (16, 240)),  # but rank 0 has some
    ],
)
def test_shares_are_as_the_speeds(
    speeds: tuple[int, ...], batch: int, expected: tuple[int, ...]
) -> None:
    assert fitted_shares([Cost(0, 1 / speed) for speed in speeds], batch, 16) == expected


def test_where_none_may_idle_all_have_some() -> None:
    slow = [Cost(0, 1), Cost(0, 100), Cost(0, 1)]
    assert fitted_shares(slow, 96, 16, may_idle=False) == (48, 16, 32)
    assert fitted_shares(slow, 96, 16) == (48, 0, 48)
    assert fitted_shares(slow, 12, 16, may_idle=False) == (4, 4, 4)


def test_what_is_left_is_not_all_that_a_worker_has() -> None:
    assert fitted_shares([Cost(0, 1), Cost(0, 20)], 33, 16) == (33, 0)


def test_a_measurement_without_a_slope_heals() -> None:
    """Both are as fast, but one seemed to need no time for an image."""
    costs = (cost_of([(16, 1.0), (48, 1.0)]), Cost(0.0, 1 / 48))
    shares = (80, 16)
    for _ in range(3):
        seconds = [images / 48 for images in shares]
        costs, shares = refitted(costs, shares, seconds, 16)
    assert shares == (48, 48)


def test_what_is_left_of_the_batch_goes_where_it_ends_soonest() -> None:
    assert fitted_shares([Cost(0, 1), Cost(0, 1), Cost(0, 0.9)], 100, 16) == (32, 32, 36)


def test_a_worker_with_much_overhead_gets_less() -> None:
    assert fitted_shares([Cost(0, 1), Cost(40, 1)], 128, 8) == (88, 40)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([(16, 3.0), (64, 9.0)], Cost(1.0, 0.125)),
        ([(16, 3.0), (64, 2.5)], Cost(0.0, 2.5 / 64)),  # noise: the larger batch was faster
        ([(16, 1.0), (64, 8.0)], Cost(0.0, 0.125)),  # noise: less than no overhead
        ([(16, 4.0), (16, 4.0)], Cost(0.0, 0.25)),
    ],
)
def test_a_cost_is_measured_with_two_batches(
    times: list[tuple[int, float]], expected: Cost
) -> None:
    assert cost_of(times) == expected


def test_no_images_take_no_time() -> None:
    assert Cost(3.0, 1.0).of(0) == 0
    assert Cost(3.0, 1.0).of(2) == 5


def test_shares_change_when_a_worker_has_become_slower() -> None:
    costs = (Cost(0, 1), Cost(0, 1))
    found, shares = refitted(costs, (96, 96), (96.0, 480.0), 16)
    assert found == (Cost(0, 1), Cost(0, 5))
    assert shares == (160, 32)


def test_shares_stay_for_a_gain_that_is_not_worthwhile() -> None:
    slower = 1 + WORTHWHILE / 2
    costs, shares = refitted((Cost(0, 1),) * 2, (960, 960), (960.0, 960.0 * slower), 1)
    assert costs[1].image_seconds == pytest.approx(slower)
    assert shares == (960, 960)


def test_a_worker_without_images_is_tried_again_now_and_then() -> None:
    costs: tuple[Cost, ...] = (Cost(0, 1), Cost(0, 4.4))
    shares, fits = (64, 0), 0
    while not shares[1]:
        costs, shares = refitted(costs, shares, (64.0, 0.3), 16)
        fits += 1
    assert fits > 5
    assert shares == (48, 16)
    _, shares = refitted(costs, shares, (48.0, 16 * 4.4), 16)  # it is as slow as it was
    assert shares == (64, 0)
