"""A parameter server in a node's memory: gradients are added up there, and a master steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from masters import BY_LAYER, OF_ALL, STEPS, trained
from quadratics import SIZE, train

from knltrain.errors import ConfigError
from knltrain.exchange.rules.accumulated_gradient import AccumulatedGradient
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.parameter_server import ParameterServerStrategy
from knltrain.exchange.strategies.strategy import MasterStep, strategy_in
from knltrain.exchange.transports.node_shared import NodeShared
from vectorized_ops.reference.elastic import synchronous_average


def server(workers: int) -> Method:
    return Method("parameter_server", AccumulatedGradient(workers), ParameterServerStrategy)


@pytest.mark.parametrize("step", [BY_LAYER, OF_ALL], ids=["by layer", "of all"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_all_have_the_weights_of_sync_sgd(in_threads: Any, workers: int, step: MasterStep) -> None:
    def work(inside: NodeShared) -> np.ndarray:
        part = strategy_in(server(workers), inside, step)
        try:
            assert part.state() == {}
            found = trained(part, inside.rank)
            assert not inside.center.any()
            return found
        finally:
            part.close()

    expected = train("sync_sgd", workers, STEPS).models
    for found in in_threads(SIZE, workers, work, 2):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_another_rule_is_refused() -> None:
    rule = GradientMean(2, synchronous_average)
    with pytest.raises(ConfigError, match="GradientMean does not add up gradients for a master"):
        Method("parameter_server", rule, ParameterServerStrategy)
