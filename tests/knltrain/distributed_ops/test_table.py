from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from knltrain.distributed_ops import (
    Dense,
    Machine,
    Options,
    ReLU,
    SingleProcessReducer,
    printed,
    table,
)
from knltrain.distributed_ops.times import BACKWARD_WEIGHTS, FORWARD, UPDATE

FLOPS, BYTES = 2 * 4 * 20 * 16, 4 * (80 + 320 + 64)


@pytest.fixture
def layer(holding: Any) -> Dense:
    """A layer that has computed twice."""
    layer = Dense("dense", 4, 20, 16, holding, Options("reference"))
    layer.times[FORWARD].calls, layer.times[FORWARD].compute_seconds = 2, 4.0
    back = layer.times[BACKWARD_WEIGHTS]
    back.calls, back.compute_seconds, back.issued_seconds, back.exposed_seconds = 2, 2.0, 3.0, 1.0
    return layer


def test_rows_are_means_of_the_directions_that_were_computed(layer: Dense) -> None:
    rows = table([ReLU("relu", (4, 20), Options("reference")), layer], Machine(1e4, 1e4))
    assert [(row.layer, row.kind, row.direction) for row in rows] == [
        ("dense", "dense", "forward"),
        ("dense", "dense", "backward_weights"),
    ]
    forward, weights = rows
    assert (forward.calls, forward.compute_seconds, forward.issued_seconds) == (2, 2.0, 0.0)
    assert (weights.issued_seconds, weights.exposed_seconds) == (1.5, 0.5)
    assert forward.arithmetic_intensity == FLOPS / BYTES
    assert forward.communication_intensity is None
    assert weights.communication_intensity == FLOPS / (4 * (320 + 16))
    assert weights.wire_bytes == 4 * (320 + 16)


@pytest.mark.parametrize(
    ("flops", "bytes_", "bound", "seconds"),
    [(FLOPS, BYTES * 10, "compute", 1.0), (FLOPS * 10, BYTES / 3, "memory", 3.0)],
)
def test_roofline_is_the_larger_of_both_bounds(
    layer: Dense, flops: float, bytes_: float, bound: str, seconds: float
) -> None:
    forward = table([layer], Machine(flops, bytes_))[0]
    assert forward.bound == bound
    assert forward.roofline_seconds == pytest.approx(seconds)
    assert forward.efficiency == pytest.approx(seconds / 2.0)


def test_what_binds_is_what_a_profile_says() -> None:
    """Alike terms bind together; a short call far from both is bound by neither."""
    layer = Dense("dense", 4, 20, 16, SingleProcessReducer(), Options("reference"))
    layer.times[FORWARD].calls, layer.times[FORWARD].compute_seconds = 2, 8e-4
    (mixed,) = table([layer], Machine(FLOPS / 3e-4, BYTES / 2.9e-4))
    (far,) = table([layer], Machine(FLOPS / 1e-4, BYTES / 5e-5))
    assert (mixed.bound, far.bound) == ("mixed", "latency")


def test_bounds_are_of_what_is_executed() -> None:
    layer = Dense("dense", 4, 20, 16, SingleProcessReducer(), Options("numba"))
    layer.times[FORWARD].calls, layer.times[FORWARD].compute_seconds = 1, 8.0
    (row,) = table([layer], Machine(FLOPS, 1e9))
    assert (row.flops, row.executed_flops) == (FLOPS, 4 * FLOPS)
    assert (row.roofline_seconds, row.efficiency) == (4.0, 0.5)
    assert row.arithmetic_intensity == FLOPS / BYTES


def test_bound_of_the_network_counts_latency_and_bytes(layer: Dense) -> None:
    forward, weights = table([layer], Machine(1e9, 1e9, 1344.0, 0.25))
    assert forward.wire_bound_seconds is None
    assert weights.wire_bound_seconds == pytest.approx(2 * 0.25 + 1.0)
    assert table([layer], Machine(1e9, 1e9))[1].wire_bound_seconds is None


def test_rows_are_plain_data(layer: Dense) -> None:
    rows = [asdict(row) for row in table([layer], Machine(1e9, 1e9, 1e9))]
    assert json.loads(json.dumps(rows)) == rows


def test_update_has_a_row_and_one_rank_sends_nothing() -> None:
    layer = Dense("dense", 4, 20, 16, SingleProcessReducer(), Options("reference"))
    for direction in (BACKWARD_WEIGHTS, UPDATE):
        layer.times[direction].calls, layer.times[direction].compute_seconds = 1, 1.0
    weights, update = table([layer], Machine(1e9, 1e9, 1e9))
    assert (weights.wire_bytes, weights.communication_intensity) == (0, None)
    assert weights.wire_bound_seconds is None
    assert update.arithmetic_intensity == 4 / 20


def test_table_is_printed_in_columns(layer: Dense) -> None:
    lines = printed(table([layer], Machine(1e9, 1e9))).splitlines()
    assert lines[0].split() == [
        *("layer", "direction", "compute", "bound", "issued", "exposed", "FLOP/B"),
        *("FLOP/sent", "B"),
    ]
    assert lines[1].split()[:3] == ["dense", "forward", "2000.000"]
    assert lines[1].endswith("-")
    assert lines[2].split()[-1] == "2"
