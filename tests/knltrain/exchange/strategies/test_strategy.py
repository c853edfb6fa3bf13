from __future__ import annotations

import numpy as np

from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.selection import strategy_in
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference.elastic import synchronous_average

RULE = ModelAveraging(1, synchronous_average)
START = np.arange(4, dtype=np.float32)


def test_the_vector_that_a_method_moves_is_the_transports_own() -> None:
    for moves in ("parameters", "gradient"):
        transport = Loopback(4)
        part = strategy_in(Method("m", RULE, moves), transport)  # type: ignore[arg-type]
        moved, other = part.parameters, part.gradient
        if moves == "gradient":
            moved, other = other, moved
        assert moved is transport.local
        assert other is not transport.local
        assert part.model is (transport.center if moves == "parameters" else part.parameters)
        part.start_from(START)
        assert part.parameters.tolist() == part.model.tolist() == START.tolist()
        assert part.state() == {}
        part.close()
        assert part.parameters.size == part.gradient.size == part.model.size == 0
