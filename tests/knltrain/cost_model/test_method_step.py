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


def test_between_two_links_it_lies_between_theirs() -> None:
    """Whatever a third link does, as where bursts pass a link at once."""
    found = MeasuredExchange({0.125: 0.02, 0.25: 0.008, 1.0: 0.001})
    assert found.seconds(1 / 6, 0.01) == pytest.approx(0.014)


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
