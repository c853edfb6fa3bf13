"""Gradients add up at the center, beside which the weights stay."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.accumulated_gradient import AccumulatedGradient


def test_the_center_becomes_the_mean_of_all_gradients_and_the_weights_stay() -> None:
    rule, center = AccumulatedGradient(2), np.zeros(3, np.float32)
    kept, contribution = np.full((1, 3), 5, np.float32), np.zeros(3, np.float32)
    for gradient in ([1.0, 2.0, 3.0], [3.0, 4.0, -3.0]):
        local = np.array(gradient, np.float32)
        rule.visit(local, center, kept, contribution)
        assert local.tolist() == gradient
    assert center.tolist() == [2.0, 3.0, 0.0]
    assert rule.model(center, kept).tolist() == [5.0] * 3
    assert (rule.adds, rule.follows, rule.center_vectors) == (True, False, 2)


def test_no_workers_are_refused() -> None:
    with pytest.raises(ConfigError, match="workers = 0"):
        AccumulatedGradient(0)
