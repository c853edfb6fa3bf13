from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.downpour import Downpour
from vectorized_ops.reference import downpour

RATE = 0.1


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def trained(rule: Downpour, steps: int) -> tuple[list[float], list[float]]:
    """Two workers that take turns on x²/2 in float64, by the rule: the center after each push."""
    center, kept = vector(1.0), np.zeros((rule.center_vectors - 1, 1), np.float32)
    locals_ = [center.copy(), center.copy()]
    pulled = [center.copy(), center.copy()]
    for each in pulled:
        rule.begin(center, each)
    centers, gradients = [], []
    for step in range(steps):
        local, own = locals_[step % 2], pulled[step % 2]
        gradients.append(float(local[0]))
        local -= np.float32(RATE) * local
        rule.visit(local, center, kept, own)
        assert local.tolist() == own.tolist() == center.tolist()
        centers.append(float(center[0]))
    return centers, gradients


def test_is_asynchronous_sgd_with_a_period_of_one_step() -> None:
    centers, gradients = trained(Downpour(downpour), 6)
    center = 1.0
    for got, gradient in zip(centers, gradients, strict=True):
        center -= RATE * gradient
        assert got == pytest.approx(center, abs=1e-6)


def test_momentum_is_the_masters_of_sc17() -> None:
    centers, gradients = trained(Downpour(downpour, 0.6), 6)
    center, velocity = 1.0, 0.0
    for got, gradient in zip(centers, gradients, strict=True):
        velocity = 0.6 * velocity - RATE * gradient
        center += velocity
        assert got == pytest.approx(center, abs=1e-6)


def test_nesterov_keeps_the_center_where_mdownpour_takes_gradients() -> None:
    centers, gradients = trained(Downpour(downpour, 0.6, nesterov=True), 6)
    x, velocity = 1.0, 0.0
    for got, gradient in zip(centers, gradients, strict=True):
        velocity = 0.6 * velocity - RATE * gradient
        x += velocity
        assert got == pytest.approx(x + 0.6 * velocity, abs=1e-6)


def test_looking_ahead_without_a_velocity_is_refused() -> None:
    with pytest.raises(ConfigError, match="center_nesterov = true without"):
        Downpour(downpour, nesterov=True)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_momentum_that_never_ends_is_refused(momentum: float) -> None:
    with pytest.raises(ConfigError, match=r"center_momentum = .*less than 1"):
        Downpour(downpour, momentum)
