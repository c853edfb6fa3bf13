from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knltrain.balance.periods import periods_by_speed

Seconds = st.lists(st.floats(1e-4, 10), min_size=1, max_size=6)


def test_all_come_as_often_by_the_clock() -> None:
    assert periods_by_speed([1.0, 4.0, 2.0], 3) == (12, 3, 6)
    assert periods_by_speed([0.7, 1.0], 1) == (1, 1)


@given(seconds=Seconds, period=st.integers(1, 64))
def test_the_slowest_keeps_the_period_and_none_comes_less_often_than_it(
    seconds: list[float], period: int
) -> None:
    found = periods_by_speed(seconds, period)
    apart = [own * each for own, each in zip(found, seconds, strict=True)]
    assert found[seconds.index(max(seconds))] == period
    assert max(apart) <= period * max(seconds) * (1 + 1e-9)
