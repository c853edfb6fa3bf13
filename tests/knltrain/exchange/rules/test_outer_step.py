from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.outer_step import OuterStep, gradient_descent, slow_momentum
from vectorized_ops.reference.outer_step import synchronous_outer_step


def center_after(rule: OuterStep, mean: float) -> float:
    """Of a center at 1 whose workers have come to a mean."""
    locals_, center = np.array([[mean - 1], [mean + 1]], np.float32), np.ones(1, np.float32)
    rule.synchronise(locals_, center, np.zeros((1, 1), np.float32))
    assert locals_.tolist() == [center.tolist()] * 2
    return float(center[0])


def test_learning_rate_1_without_momentum_is_model_averaging() -> None:
    rule = OuterStep(2, gradient_descent(1.0, 0.0, False), synchronous_outer_step)
    assert center_after(rule, 3.0) == 3.0


def test_nesterovs_form_goes_further_in_the_first_step() -> None:
    for nesterov, expected in ((False, 1 + 0.7 * 2), (True, 1 + 0.7 * (2 + 0.9 * 2))):
        rule = OuterStep(2, gradient_descent(0.7, 0.9, nesterov), synchronous_outer_step)
        assert center_after(rule, 3.0) == pytest.approx(expected)


def test_a_step_without_learning_rate_leaves_the_center() -> None:
    rule = OuterStep(2, slow_momentum(1.0, 0.5, lambda step: 0.1 * step), synchronous_outer_step)
    rule.prepare(0)
    assert center_after(rule, 3.0) == 1.0
    rule.prepare(1)
    assert center_after(rule, 3.0) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("rate", "momentum", "key"), [(0.0, 0.5, "center_learning_rate"), (0.7, 1.0, "center_momentum")]
)
def test_values_out_of_range_are_refused(rate: float, momentum: float, key: str) -> None:
    with pytest.raises(ConfigError, match=f"exchange.{key} = "):
        gradient_descent(rate, momentum, True)
    with pytest.raises(ConfigError, match=f"exchange.{key} = "):
        slow_momentum(rate, momentum, lambda _: 0.1)


def test_nesterovs_form_needs_a_momentum() -> None:
    with pytest.raises(ConfigError, match=r"center_nesterov = true without"):
        gradient_descent(0.7, 0.0, True)


def test_nobody_steps_without_workers() -> None:
    with pytest.raises(ConfigError, match="workers = 0"):
        OuterStep(0, gradient_descent(0.7, 0.9, True), synchronous_outer_step)
