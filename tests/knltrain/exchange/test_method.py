from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.method import Method
from vectorized_ops.reference.elastic import synchronous_average

RULE = ModelAveraging(1, synchronous_average)


def test_exchange_is_due_in_step_0_and_every_period_steps_after() -> None:
    method = Method("local_sgd", RULE, "parameters", period=3)
    assert [step for step in range(8) if method.due(step)] == [0, 3, 6]


def test_without_period_no_exchange_is_ever_due() -> None:
    method = Method("none", RULE, "parameters", period=None)
    assert not any(method.due(step) for step in range(5))


def test_period_below_one_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="communication_period = 0"):
        Method("sync_easgd", RULE, "parameters", period=0)


def test_gradients_with_a_period_are_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r"sync_sgd exchanges gradients.*use 1"):
        Method("sync_sgd", RULE, "gradient", period=2)
