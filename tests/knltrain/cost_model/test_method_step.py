from __future__ import annotations

import pytest

from knltrain.cost_model.method_step import MeasuredExchange
from knltrain.cost_model.overlap import meanwhile

LINKS = (0.0625, 0.25, 5.0)
"""GB/s."""


@pytest.mark.parametrize("link", [0.03, 0.0625, 0.125, 1.0, 5.0, 12.5])
def test_an_exchange_over_some_links_predicts_that_over_others(link: float) -> None:
    """3 ms besides the link, and 2 MB over it."""
    exchange = MeasuredExchange({each: 0.003 + 0.002 / each for each in LINKS})
    assert exchange.least_seconds == pytest.approx(0.0034)
    expected = max(0.0034, 0.003 + 0.002 / link)
    assert exchange.seconds(link, 0.01) == pytest.approx(expected)


def test_the_two_slowest_links_make_the_line() -> None:
    """4 ms besides the link, 3 MB over it, of which 1 MB passes at once."""
    found = MeasuredExchange({0.125: 0.02, 0.25: 0.012, 5.0: 0.004})
    assert found.seconds(1 / 6, 0.01) == pytest.approx(0.016)
    assert found.seconds(0.5, 0.01) == pytest.approx(0.008)
    assert found.seconds(1.0, 0.01) == pytest.approx(0.006)
    assert found.seconds(2.0, 0.01) == pytest.approx(0.005)


def test_a_link_on_which_bursts_pass_at_once_takes_no_time() -> None:
    """2 ms of them."""
    links = (0.0625, 0.25, 5.0)
    found = MeasuredExchange({each: 0.004 + max(0.0, 0.002 / each - 0.002) for each in links})
    for link in (0.125, 0.8, 1.25):
        expected = 0.004 + max(0.0, 0.002 / link - 0.002)
        assert found.seconds(link, 0.01) == pytest.approx(expected)


def test_a_faster_link_never_takes_longer_than_a_slower_one() -> None:
    """The slowest was measured as the faster of the two."""
    found = MeasuredExchange({0.0625: 0.005, 0.25: 0.006, 5.0: 0.004})
    assert found.seconds(1.0, 0.01) == found.seconds(0.1, 0.01) == pytest.approx(0.006)


def test_what_the_fastest_link_takes_may_come_from_other_steps() -> None:
    found = MeasuredExchange({0.125: 0.02, 0.25: 0.012, 5.0: 0.004}, least_seconds=0.001)
    assert found.least_seconds == 0.001
    assert found.seconds(1 / 6, 0.01) == pytest.approx(0.013)
    assert MeasuredExchange({1.0: 0.1}, least_seconds=-1.0).least_seconds == 0


@pytest.mark.parametrize("light", [0.0, 0.004])
def test_what_overlaps_hides_its_time_on_the_link_as_long_as_computing_lasts(light: float) -> None:
    """Also in the steps of little computing by which it was measured."""
    on_link = {each: 0.002 / each for each in (0.0625, 0.25)}
    added = {each: 0.003 + max(0.0, time - light) for each, time in on_link.items()}
    exchange = MeasuredExchange({5.0: 0.003, **added}, light, meanwhile(1.0))
    assert exchange.seconds(0.125, 0.01) == pytest.approx(0.003 + 0.016 - 0.01, abs=2e-4)
    assert exchange.seconds(0.125, 0.02) == pytest.approx(0.003)
    assert exchange.seconds(0.125, 0.01, hides=False) == pytest.approx(0.019, abs=2e-4)
    assert exchange.seconds(5.0, 0.01) == pytest.approx(0.003)


def test_without_a_link_all_of_an_exchange_is_work_of_the_cores() -> None:
    exchange = MeasuredExchange({1.0: 0.004}, 0.001, meanwhile(1.0))
    assert exchange.seconds(None, 0.01) == 0.004
    assert exchange.seconds(0.1, 0.01) == 0.004


def test_an_exchange_that_no_clock_sees_takes_nothing() -> None:
    found = MeasuredExchange({0.25: -0.001, 0.5: -0.002})
    assert (found.seconds(1.0, 0.01), found.least_seconds) == (0.0, 0.0)
