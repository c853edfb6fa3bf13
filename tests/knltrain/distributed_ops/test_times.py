from __future__ import annotations

import pytest

from knltrain.distributed_ops import Times


def test_time_inside_is_counted_as_computing() -> None:
    times = Times()
    for calls in (1, 2):
        before = times.compute_seconds
        with times.computing():
            assert sum(range(1000)) == 499_500
        assert times.calls == calls
        assert times.compute_seconds > before


def test_call_that_fails_is_not_counted() -> None:
    times = Times()
    with pytest.raises(ZeroDivisionError), times.computing():
        _ = 1 / 0
    assert (times.calls, times.compute_seconds) == (0, 0.0)


def test_all_can_be_forgotten() -> None:
    times = Times(3, 1.0, 2.0, 0.5)
    times.clear()
    assert times == Times()
