from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.easgd import EASGD
from vectorized_ops.reference.elastic import synchronous_elastic_update


def test_exchange_of_two_workers_worked_out_by_hand() -> None:
    locals_ = np.array([[4.0], [8.0]], np.float32)
    center = np.array([2.0], np.float32)
    EASGD(0.25, 2, synchronous_elastic_update).synchronise(locals_, center)
    assert locals_.tolist() == [[3.5], [6.5]]
    assert center.tolist() == [4.0]


def test_moving_rate_past_the_mean_is_refused_with_the_bound() -> None:
    message = r"moving_rate = 0\.3 with 4 workers: expected at most .* = 0\.25 .*0\.225"
    with pytest.raises(ConfigError, match=message):
        EASGD(0.3, 4, synchronous_elastic_update)


@pytest.mark.parametrize("moving_rate", [0.0, -0.1, float("nan")])
def test_moving_rate_that_does_not_pull_is_refused(moving_rate: float) -> None:
    with pytest.raises(ConfigError, match="expected more than 0"):
        EASGD(moving_rate, 2, synchronous_elastic_update)


@pytest.mark.parametrize("workers", [1, 3, 49, 72])
def test_moving_rate_that_moves_the_center_to_the_mean_is_allowed(workers: int) -> None:
    EASGD(1 / workers, workers, synchronous_elastic_update)
