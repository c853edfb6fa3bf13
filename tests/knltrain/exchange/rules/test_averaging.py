from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import GradientMean, GradientSum, ModelAveraging
from vectorized_ops.reference.elastic import synchronous_average, synchronous_sum

ROUNDING = 2.0**-24


def test_exchange_of_two_workers_worked_out_by_hand() -> None:
    locals_ = np.array([[4.0], [7.0]], np.float32)
    center = np.array([100.0], np.float32)
    ModelAveraging(2, synchronous_average).synchronise(
        locals_, center, np.zeros((0, 1), np.float32)
    )
    assert locals_.tolist() == [[5.5], [5.5]]
    assert center.tolist() == [5.5]


def test_exchange_keeps_the_sum_of_the_locals_up_to_rounding() -> None:
    rng = np.random.default_rng(3)
    locals_ = rng.standard_normal((3, 2000), np.float32)
    before = locals_.sum(axis=0, dtype=np.float64)
    scale = np.abs(locals_).sum(axis=0, dtype=np.float64)
    kept = np.zeros((0, 2000), np.float32)
    ModelAveraging(3, synchronous_average).synchronise(locals_, np.zeros(2000, np.float32), kept)
    # Two roundings of the sum, one of the division.
    bound = 3 * ROUNDING * 1.001 * scale
    assert np.all(np.abs(locals_.sum(axis=0, dtype=np.float64) - before) <= bound)


def test_no_workers_are_refused() -> None:
    with pytest.raises(ConfigError, match="workers = 0"):
        ModelAveraging(0, synchronous_average)


@pytest.mark.parametrize("center", [0.0, 100.0, np.inf])
def test_gradients_have_nothing_to_do_with_the_center_before(center: float) -> None:
    none = np.zeros((0, 1), np.float32)
    for rule, expected in (
        (GradientMean(2, synchronous_average), 5.5),
        (GradientSum(2, synchronous_sum), 11.0),
    ):
        locals_ = np.array([[4.0], [7.0]], np.float32)
        old, out = np.array([center], np.float32), np.zeros((2, 1), np.float32)
        for local, contribution in zip(locals_, out, strict=True):
            rule.contribute(local, old, contribution)
        rule.absorb(old, none, out[0] + out[1])
        for local, contribution in zip(locals_, out, strict=True):
            rule.follow(local, old, contribution)
        assert old.tolist() == [expected]
        assert locals_.tolist() == [[expected]] * 2


@pytest.mark.parametrize("rule", [GradientMean, GradientSum])
def test_gradients_of_no_workers_are_refused(rule: type[GradientMean]) -> None:
    with pytest.raises(ConfigError, match="workers = 0"):
        rule(0, synchronous_average)
