"""The bounds of stability, and that elastic averaging on a quadratic keeps to them."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.stability import downpour_doubts, elastic_doubts
from vectorized_ops.reference import elastic


def grows(moving_rate: float, learning_rate: float, workers: int = 3) -> bool:
    """Whether workers that take turns on x²/2 leave its minimum; gradient and pull at one x."""
    locals_, center = [np.ones(1, np.float32) for _ in range(workers)], np.zeros(1, np.float32)
    rule, kept = EASGD(moving_rate, elastic), np.zeros((0, 1), np.float32)
    for step in range(400):
        local = locals_[step % workers]
        gradient = local.copy()
        rule.visit(local, center, kept, np.zeros(1, np.float32))
        local -= np.float32(learning_rate) * gradient
    return bool(max(float(np.abs(local[0])) for local in locals_) > 1.0)


@pytest.mark.parametrize("learning_rate", [0.1, 0.5, 1.0, 1.5])
def test_bound_of_taking_turns_is_where_a_quadratic_begins_to_grow(learning_rate: float) -> None:
    bound = (4 - 2 * learning_rate) / (4 - learning_rate)
    assert not grows(0.97 * bound, learning_rate)
    assert 1.03 * bound >= 1 or grows(1.03 * bound, learning_rate)
    assert not any("(4 - 2" in doubt for doubt in elastic_doubts(0.97 * bound, 1, learning_rate))
    assert "(4 - 2 η) / (4 - η) = " in elastic_doubts(1.03 * bound, 1, learning_rate)[0]


@pytest.mark.parametrize("workers", [1, 3, 49, 72])
def test_center_may_move_to_the_mean_but_not_past_it(workers: int) -> None:
    assert elastic_doubts(0.99 / workers, workers, 0.01) == []
    if workers > 1:
        assert elastic_doubts(1 / workers, workers, 0.01) == []
        (doubt,) = elastic_doubts(1.1 / workers, workers, 0.01)
        assert f"past 1 / workers = {1 / workers:.4g}" in doubt


def test_learning_rate_that_is_never_stable_is_doubted() -> None:
    assert elastic_doubts(0.1, 1, 2.5)


def test_downpour_is_doubted_with_long_periods() -> None:
    assert downpour_doubts(4) == []
    assert "easgd" in downpour_doubts(16)[0]
