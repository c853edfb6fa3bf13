"""Exchanges that go on while workers compute."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from quadratics import NETWORK, STEPS, WORKERS, train

from knltrain.config.exchange_table import ExchangeConfig
from knltrain.errors import ConfigError
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.overlapped import LayerwiseStrategy
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.transport import WHOLE
from vectorized_ops.reference.elastic import synchronous_average


@pytest.mark.parametrize("nodes", [1, 3])
def test_gradients_layer_by_layer_are_the_same_bits_as_at_once(nodes: int) -> None:
    whole = train("sync_sgd", WORKERS, STEPS, nodes=nodes)
    for packing in ("packed", "per_layer"):
        by_layer = train("layerwise_sgd", WORKERS, STEPS, nodes=nodes, packing=packing)
        assert np.array_equal(by_layer.parameters, whole.parameters)
        assert np.array_equal(by_layer.models, whole.models)


def test_exchange_of_a_layer_begins_while_others_are_computed() -> None:
    """The transport is asked for the last layer before the first one's gradient is there."""
    rule = GradientMean(1, synchronous_average)
    parts = (slice(0, 8), slice(8, 16), slice(16, 24))
    method = Method("layerwise_sgd", rule, LayerwiseStrategy, parts=parts)
    asked: list[slice] = []
    began = threading.Event()

    class Watched(Loopback):
        def exchange_beside(self, rule, part=WHOLE, *, of_locals=True):  # type: ignore[no-untyped-def]
            asked.append(part)
            began.set()
            super().exchange_beside(rule, part, of_locals=of_locals)

    part = strategy_in(method, Watched(24, 1, spares=True))
    part.step_begins(0)
    part.gradient[:] = np.arange(24)
    part.gradient_done_from(20)
    assert not began.wait(0.05)
    part.gradient_done_from(16)
    assert began.wait(20)
    assert asked == [parts[2]]
    part.gradient_done_from(8)
    part.gradient_ready(0)
    assert asked == list(parts[::-1])
    assert np.array_equal(part.gradient, np.arange(24))
    part.close()


@pytest.mark.parametrize(("fusion_kib", "parts"), [(None, 1), (0, 3), (1, 2), (3, 2), (4, 1)])
def test_layers_that_are_small_are_exchanged_with_those_done_before_them(
    fusion_kib: int | None, parts: int
) -> None:
    """They have 1232, 640 and 224 values, the last of which is done first."""
    chosen = ExchangeConfig(fusion_kib=fusion_kib)
    assert len(LayerwiseStrategy.own_settings(chosen, NETWORK)["parts"]) == parts


def test_each_layer_alone_has_no_least_size() -> None:
    chosen = ExchangeConfig(fusion_kib=4, packing="per_layer")
    with pytest.raises(ConfigError, match=r"fusion_kib = 4 with exchange.packing = 'per_layer'"):
        LayerwiseStrategy.own_settings(chosen, NETWORK)
