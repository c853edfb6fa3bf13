from __future__ import annotations

import pytest

from knltrain.cost_model.line import Link
from knltrain.cost_model.method_step import LEAST_SECONDS, exchange_of, step_seconds


def test_an_exchange_over_two_links_predicts_that_over_a_third() -> None:
    """3 ms besides the link, and 2 MB over it."""
    exchange = exchange_of({link: 0.003 + 0.002 / link for link in (0.25, 0.5)})
    assert exchange.alpha == pytest.approx(0.003)
    assert exchange.beta == pytest.approx(0.002)
    assert step_seconds(0.01, exchange, 1.0, overlaps=False) == pytest.approx(0.015)


def test_what_overlaps_hides_its_time_on_the_link_as_long_as_computing_lasts() -> None:
    exchange = Link(0.003, 0.002)
    assert step_seconds(0.01, exchange, 1.0, overlaps=True) == pytest.approx(0.013)
    assert step_seconds(0.01, exchange, 0.1, overlaps=True) == pytest.approx(0.023)


def test_without_a_link_all_of_an_exchange_is_work_of_the_cores() -> None:
    exchange = exchange_of({1.0: 0.004})
    assert exchange == Link(0.004, 0.0)
    assert step_seconds(0.01, exchange, None, overlaps=True) == pytest.approx(0.014)


def test_an_exchange_that_no_clock_sees_takes_next_to_nothing() -> None:
    found = exchange_of({0.25: -0.001, 0.5: 0.0})
    assert found.alpha == pytest.approx(LEAST_SECONDS)
    assert found.beta == pytest.approx(0.0, abs=1e-9)
