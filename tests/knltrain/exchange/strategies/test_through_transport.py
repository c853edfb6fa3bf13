from __future__ import annotations

import numpy as np

from knltrain.exchange.rules.averaging import GradientMean, ModelAveraging
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference.elastic import synchronous_average

RULES = (ModelAveraging(1, synchronous_average), GradientMean(1, synchronous_average))
START = np.arange(4, dtype=np.float32)


def test_the_vector_that_a_method_moves_is_the_transports_own() -> None:
    for rule in RULES:
        transport = Loopback(4)
        part = strategy_in(Method("m", rule, SynchronousStrategy), transport)
        moved, other = part.parameters, part.gradient
        if rule.moves == "gradient":
            moved, other = other, moved
        assert moved is transport.local
        assert other is not transport.local
        assert part.model is (transport.center if rule.moves == "parameters" else part.parameters)
        part.start_from(START)
        assert part.parameters.tolist() == part.model.tolist() == START.tolist()
        assert part.state() == {}
        part.close()
        assert part.parameters.size == part.gradient.size == part.model.size == 0
