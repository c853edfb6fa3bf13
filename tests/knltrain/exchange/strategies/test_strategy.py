from __future__ import annotations

import pytest

from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy, OverlappedPushStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.overlapped import OverlappedStrategy
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.stream import Stream
from knltrain.exchange.strategies.streaming import StreamingStrategy
from knltrain.exchange.strategies.synchronous import MasterStrategy, SynchronousStrategy
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference import elastic

PULL = EASGD(0.3, elastic)
MEAN = ModelAveraging(1, elastic.synchronous_average)


@pytest.mark.parametrize(
    "method",
    [
        Method("m", PULL, SynchronousStrategy),
        Method("m", PULL, MasterStrategy),
        Method("m", PULL, OverlappedStrategy),
        Method("m", MEAN, StreamingStrategy, 4, stream=Stream((slice(0, 5),))),
        Method("m", PULL, AsynchronousStrategy, schedule="first_come"),
        Method("m", PULL, OverlappedPushStrategy, schedule="first_come", after="step"),
    ],
    ids=lambda method: method.strategy.__name__,
)
def test_workers_take_part_by_the_class_that_their_method_names(method: Method) -> None:
    part = strategy_in(method, Loopback(10, spares=method.strategy.needs_spares))
    assert type(part) is method.strategy
    part.exchange(0)
    part.settle()
    part.close()
