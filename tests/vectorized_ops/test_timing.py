"""Timing of short work."""

from vectorized_ops.timing import mean_seconds


def test_what_is_short_is_repeated_within_one_timing():
    calls = []
    seconds = mean_seconds(lambda: calls.append(1), enough=0.01)
    assert len(calls) > 1
    assert len(calls) * seconds >= 0.01


def test_once_is_the_least():
    calls = []
    mean_seconds(lambda: calls.append(1), enough=0.0)
    assert calls == [1]
