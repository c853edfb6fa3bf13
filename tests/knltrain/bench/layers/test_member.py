"""A rank's answer."""

from __future__ import annotations

import json

from knltrain.bench.layers.chain import Chain
from knltrain.bench.layers.member import measured
from knltrain.distributed_ops import Machine, Options, Row, SingleProcessReducer
from knltrain.network.zoo.networks import network_named


def test_answer_has_a_row_for_each_direction_of_the_steps_asked_for() -> None:
    chain = Chain(network_named("lenet"), 2, 1, SingleProcessReducer(), Options("reference"))
    chain.step()
    answer = json.loads(json.dumps(measured(chain, 3)))
    assert Machine(**answer["machine"]).flops_per_second > 0
    rows = [Row(**row) for row in answer["rows"]]
    assert [row.calls for row in rows] == [3] * 15
    assert [row.direction for row in rows[:3]] == ["forward", "backward_weights", "update"]
    assert all(row.compute_seconds > 0 for row in rows)
