"""Steps of methods by formulas, on a link where they can be computed by hand."""

from __future__ import annotations

from functools import partial

import pytest

from knltrain.bench.cost_model.steps import Ground, predicted_method_steps
from knltrain.config.methods import METHODS
from knltrain.cost_model.collectives import broadcast, pipelined_tree, ring, tree
from knltrain.cost_model.line import Link
from knltrain.errors import ConfigError
from knltrain.network.layer_slices import layer_sizes
from knltrain.network.zoo.networks import network_named

NETWORK = network_named("lenet")
SIZE = 4 * NETWORK.packed_size
LINK = Link(1e-4, 1e-8, 5e-9)
VISIT = 2 * LINK.message(SIZE) + LINK.gamma * SIZE
BUSY = SIZE * (2 * LINK.beta + LINK.gamma)
"""Of a server's link, for one visit."""
RING = partial(ring, LINK, SIZE)
LONG = 10.0


def step(method: str, ranks: int, computing: float = LONG, servers: int | None = 1) -> float:
    ground = Ground(LINK, partial(ring, LINK), servers)
    (row,), failures = predicted_method_steps("lenet", [method], [ranks], computing, ground)
    assert not failures
    return float(row["step_seconds"])


@pytest.mark.parametrize(
    ("method", "ranks", "extra"),
    [
        ("none", 8, 0.0),
        ("sync_easgd", 8, RING(8)),
        ("sync_sgd", 6, RING(6)),
        ("sync_easgd1", 8, tree(LINK, SIZE, 8)),
        ("sync_easgd3", 8, 0.0),
        ("local_sgd", 8, RING(8) / 8),
        ("diloco", 8, RING(8) / 500),
        ("caffe_mpi", 8, 7 * VISIT),
        ("parameter_server", 8, 8 * BUSY + 2 * LINK.alpha + 2 * LINK.message(SIZE)),
        ("original_easgd", 8, VISIT),
        ("original_easgd_star", 8, 7 * LONG + 8 * VISIT),
        ("async_easgd", 8, VISIT),
        ("easgd", 8, VISIT / 10),
        ("seasgd", 8, VISIT / 2),
        ("hierarchical_easgd", 8, RING(4)),
        ("hierarchical_sgd", 8, RING(4) / 4 + (RING(2) + broadcast(LINK, SIZE, 4)) / 16),
        ("shmcaffe_h", 8, RING(4) + VISIT / 2 + broadcast(LINK, SIZE, 4)),
    ],
)
def test_a_step_is_computing_and_what_of_the_exchange_is_exposed(
    method: str, ranks: int, extra: float
) -> None:
    assert step(method, ranks) == pytest.approx(LONG + extra)
    assert step(method, 1) == LONG


@pytest.mark.parametrize(
    ("method", "least"),
    [("async_easgd", 8 * BUSY), ("seasgd", 8 * BUSY), ("original_easgd", 8 * VISIT)],
)
def test_workers_wait_for_a_center_that_is_always_busy(method: str, least: float) -> None:
    assert step(method, 8, 1e-6) == pytest.approx(least)
    if method != "original_easgd":
        assert step(method, 8, 1e-6, servers=2) == pytest.approx(least / 2)


def test_what_computing_does_not_hide_is_exposed() -> None:
    assert step("sync_easgd3", 8, 1e-3) == pytest.approx(RING(8))
    fragments = step("streaming_diloco", 8, 1e-6)  # of 4, each with its own messages
    expected = (RING(8) + 3 * 14 * LINK.alpha) / 500
    assert fragments == pytest.approx(expected + 1e-6 * (1 - 4 * 5 / 500))


def test_layers_go_up_one_tree_and_down_another_behind_the_backward_pass() -> None:
    layers = len(layer_sizes(NETWORK))
    up = pipelined_tree(Link(1e-4, 1.5e-8), SIZE, 8, children=3, pieces=layers)
    down = pipelined_tree(LINK, SIZE, 8, children=2, pieces=layers)
    ground = Ground(LINK, partial(ring, LINK))
    (row,), _ = predicted_method_steps("lenet", ["caffegpi"], [8], 0.01, ground)
    assert row["exchange_seconds"] == pytest.approx(up + down)
    assert 0.01 < row["step_seconds"] < 0.01 + up + down
    (two,), _ = predicted_method_steps("lenet", ["caffegpi"], [2], 0.01, ground)
    assert two["exchange_seconds"] == pytest.approx(
        2 * layers * LINK.alpha + SIZE * (2 * LINK.beta + LINK.gamma)
    )


def test_every_method_has_a_step_or_a_reason() -> None:
    ground = Ground(LINK, partial(ring, LINK))
    rows, failures = predicted_method_steps("lenet", ["all"], [1, 2, 6], LONG, ground)
    assert {row["method"] for row in rows} == set(METHODS)
    assert set(failures) == {"asgd", "mvasgd"}
    assert all(row["step_seconds"] >= LONG for row in rows)
    slower = [row["method"] for row in rows if row["ranks"] == 6 and row["step_seconds"] > LONG]
    assert set(METHODS) - set(slower) == {
        "none", "asgd", "mvasgd", "sync_easgd3", "streaming_diloco",
    }  # fmt: skip


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'easgd'"):
        predicted_method_steps("lenet", ["easgt"], [2], LONG, Ground(LINK, partial(ring, LINK)))
