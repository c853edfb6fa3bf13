"""What strategies of one MPI job have in common."""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import NETWORK

from knltrain.config.exchange_table import ExchangeConfig
from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.strategies.layer_trees import LayerTreeStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.one_job import OneJobStrategy
from knltrain.exchange.strategies.star import StarStrategy
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.transports.job_team import JobTeam
from vectorized_ops.reference.elastic import synchronous_average, synchronous_model_average

BOTH = pytest.mark.parametrize("kind", [LayerTreeStrategy, StarStrategy])


@BOTH
def test_workers_are_ranks_of_one_job_whose_master_steps_at_master(
    kind: type[OneJobStrategy],
) -> None:
    settings = kind.own_settings(ExchangeConfig(), NETWORK)
    method = Method("m", GradientMean(1, synchronous_average), kind, **settings)
    assert method.layer_parts[-1].stop == NETWORK.packed_size
    assert kind.sent_bytes(method, 8) is None
    part = strategy_in(method, JobTeam.of_one())
    part.start_from(np.ones(NETWORK.packed_size, np.float32))
    assert part.model is part.parameters
    assert part.model[-1] == 1
    assert part.state() == {}
    part.close()


@BOTH
def test_what_is_not_the_gradient_of_all_is_refused(kind: type[OneJobStrategy]) -> None:
    with pytest.raises(ConfigError, match="only for gradients"):
        Method("m", ModelAveraging(2, synchronous_model_average), kind, after="step")
