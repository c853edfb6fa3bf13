from __future__ import annotations

import numpy as np
import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.rules.easgd import EASGD
from vectorized_ops.reference import elastic

NOTHING = np.zeros((0, 1), np.float32)


def test_worker_that_comes_alone_worked_out_by_hand() -> None:
    local, center = np.array([4.0], np.float32), np.array([2.0], np.float32)
    EASGD(0.25, elastic).visit(local, center, NOTHING, np.zeros(1, np.float32))
    assert local.tolist() == [3.5]
    assert center.tolist() == [2.5]


def test_three_verbs_of_who_comes_alone_worked_out_by_hand() -> None:
    local, center = np.array([4.0], np.float32), np.array([2.0], np.float32)
    rule, contribution = EASGD(0.25, elastic), np.zeros(1, np.float32)
    rule.contribute(local, center, contribution)
    assert (local.tolist(), center.tolist(), contribution.tolist()) == ([3.5], [2.0], [0.5])
    rule.absorb(center, NOTHING, contribution)
    rule.follow(local, center, contribution)
    assert (local.tolist(), center.tolist()) == ([3.5], [2.5])


def test_exchange_of_two_workers_worked_out_by_hand() -> None:
    locals_ = np.array([[4.0], [8.0]], np.float32)
    center = np.array([2.0], np.float32)
    EASGD(0.25, elastic).synchronise(locals_, center, NOTHING)
    assert locals_.tolist() == [[3.5], [6.5]]
    assert center.tolist() == [4.0]


@pytest.mark.parametrize("moving_rate", [0.0, -0.1, 1.0, float("nan")])
def test_moving_rate_that_is_no_share_is_refused(moving_rate: float) -> None:
    with pytest.raises(ConfigError, match="expected more than 0 and less than 1"):
        EASGD(moving_rate, elastic)
