"""The layers that are measured: those of the network, each computed as often as in a step."""

from __future__ import annotations

from typing import Any

import pytest

from knltrain.bench.layers.chain import Chain
from knltrain.distributed_ops import (
    BatchNormalisation,
    Convolution,
    Dense,
    Options,
    SingleProcessReducer,
)
from knltrain.errors import ConfigError
from knltrain.network import layers
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named

REFERENCE = Options("reference")


def calls_of(layer: Any) -> list[int]:
    return [times.calls for times in layer.times.values()]


def test_step_computes_all_directions_but_the_gradient_of_the_images() -> None:
    chain = Chain(network_named("lenet"), 2, 1, SingleProcessReducer(), REFERENCE)
    assert [(layer.name, type(layer)) for layer in chain.layers] == [
        ("conv1", Convolution),
        ("conv2", Convolution),
        ("ip1", Dense),
        ("ip2", Dense),
    ]
    for _ in range(2):
        chain.step()
    assert calls_of(chain.layers[0]) == [2, 0, 2, 2]
    assert all(calls_of(layer) == [2, 2, 2, 2] for layer in chain.layers[1:])


def test_steps_leave_the_weights_as_they_are() -> None:
    chain = Chain(network_named("lenet"), 2, 1, SingleProcessReducer(), REFERENCE)
    before = [layer.parameters["weights"].copy() for layer in chain.layers]
    chain.step()
    for layer, weights in zip(chain.layers, before, strict=True):
        assert layer.parameters["weights"].tobytes() == weights.tobytes()
        assert layer.gradients["weights"].any()


def test_shapes_groups_and_branches_are_those_of_the_network() -> None:
    network = Network(
        "branches",
        (6, 6, 4),
        [
            layers.Convolution("left", 6, (3, 1), stride=2, padding=1, groups=2, bias=False),
            layers.BatchNormalisation("norm"),
            layers.Dense("out", 3, inputs=("norm",)),
        ],
    )
    chain = Chain(network, 2, 5, SingleProcessReducer(), REFERENCE)
    left, norm, out = chain.layers
    assert isinstance(left, Convolution)
    assert isinstance(norm, BatchNormalisation)
    assert left.parameters["weights"].shape == (6, 2, 3, 1)
    assert out.parameters["weights"].shape[0] == 3
    chain.step()  # in two chunks, and three: there are no more groups and outputs


def test_vectors_are_normalised_as_maps_of_one_pixel() -> None:
    described = layers.Dense("hidden", 4), layers.BatchNormalisation("norm"), layers.Dense("out", 3)
    network = Network("vectors", (2, 2, 1), described)
    chain = Chain(network, 2, 1, SingleProcessReducer(), REFERENCE)
    chain.step()
    assert [layer.name for layer in chain.layers] == ["hidden", "norm", "out"]
    assert calls_of(chain.layers[1])[0] == 1


def test_less_than_one_chunk_is_refused() -> None:
    with pytest.raises(ConfigError, match="--chunks 0: expected at least 1"):
        Chain(network_named("lenet"), 2, 0, SingleProcessReducer(), REFERENCE)
