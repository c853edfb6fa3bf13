from __future__ import annotations

from dataclasses import replace

import pytest

from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.method import Method, Stream
from knltrain.exchange.strategies.selection import strategy_in
from knltrain.exchange.transports.loopback import Loopback
from vectorized_ops.reference import elastic

PLAIN = Method("easgd", EASGD(0.3, elastic), "parameters")
ALONE = replace(PLAIN, schedule="first_come", after="step")
AVERAGE = Method("average", ModelAveraging(1, elastic.synchronous_average), "parameters", 4)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (PLAIN, "SynchronousStrategy"),
        (replace(PLAIN, overlap="gradient"), "OverlappedStrategy"),
        (replace(AVERAGE, stream=Stream((slice(0, 5),))), "StreamingStrategy"),
        (ALONE, "AsynchronousStrategy"),
        (replace(ALONE, overlap="writes"), "OverlappedPushStrategy"),
    ],
)
def test_workers_take_part_as_their_method_is_composed(method: Method, kind: str) -> None:
    part = strategy_in(method, Loopback(10, spares=method.spares))
    assert type(part).__name__ == kind
    part.close()
