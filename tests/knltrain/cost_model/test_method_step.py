from __future__ import annotations

import pytest

from knltrain.cost_model.method_step import MeasuredExchange, step_seconds

LINKS = (0.0625, 0.25, 5.0)
"""GB/s."""


@pytest.fixture
def exchange() -> MeasuredExchange:
    """3 ms besides the link, and 2 MB over it."""
    return MeasuredExchange({link: 0.003 + 0.002 / link for link in LINKS})


@pytest.mark.parametrize("link", [0.03, 0.0625, 0.125, 1.0, 5.0, 12.5])
def test_an_exchange_over_some_links_predicts_that_over_others(
    exchange: MeasuredExchange, link: float
) -> None:
    assert exchange.seconds(link) == pytest.approx(0.003 + 0.002 / link)
    predicted = step_seconds(0.01, exchange, link, overlaps=False)
    assert predicted == pytest.approx(0.013 + 0.002 / link)


def test_between_two_links_it_lies_between_theirs() -> None:
    """Whatever a third link does, as where bursts pass a link at once."""
    found = MeasuredExchange({0.125: 0.02, 0.25: 0.008, 1.0: 0.001})
    assert found.seconds(1 / 6) == pytest.approx(0.014)


def test_what_overlaps_hides_its_time_on_the_link_as_long_as_computing_lasts(
    exchange: MeasuredExchange,
) -> None:
    least = 0.0034
    assert exchange.least_seconds == pytest.approx(least)
    assert step_seconds(0.01, exchange, 1.0, overlaps=True) == pytest.approx(0.01 + least)
    assert step_seconds(0.01, exchange, 0.1, overlaps=True) == pytest.approx(0.023)


def test_without_a_link_all_of_an_exchange_is_work_of_the_cores() -> None:
    exchange = MeasuredExchange({1.0: 0.004})
    assert step_seconds(0.01, exchange, None, overlaps=True) == pytest.approx(0.014)
    assert exchange.seconds(0.1) == 0.004


def test_an_exchange_that_no_clock_sees_takes_nothing() -> None:
    found = MeasuredExchange({0.25: -0.001, 0.5: -0.002})
    assert (found.seconds(1.0), found.least_seconds) == (0.0, 0.0)
