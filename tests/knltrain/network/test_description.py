from __future__ import annotations

import json
from typing import Any

import pytest

from knltrain.errors import NetworkError
from knltrain.network.description import layer_kinds, network_from_json, network_to_json
from knltrain.network.graph import Output
from knltrain.network.layers import (
    CAFFE_BIAS,
    Addition,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.networks import NETWORKS

NETWORK = Network(
    "small",
    (8, 8, 2),
    (
        Convolution("conv.1", 2, (3, 1), padding=(1, 0), bias_multipliers=CAFFE_BIAS),
        BatchNormalisation("norm", momentum=0.01),
        ReLU("six", ceiling=6.0),
        Addition("sum", inputs=("six", "images")),
        MaxPooling("pool", 3, 2, ceil=True),
        GlobalAveragePooling("mean"),
        Dense("fc", 5),
        Dense("other", 5, inputs=("pool",)),
    ),
    (Output("fc"), Output("other", 0.3)),
)


@pytest.mark.parametrize("network", [NETWORK, *(make() for make in NETWORKS.values())], ids=str)
def test_networks_are_built_again_from_their_description(network: Network) -> None:
    assert network_from_json(network_to_json(network), "network.json") == network


def test_what_has_its_default_is_left_out() -> None:
    told = json.loads(network_to_json(NETWORK))
    assert told["layers"][2] == {"kind": "ReLU", "name": "six", "ceiling": 6.0}
    assert told["layers"][6] == {"kind": "Dense", "name": "fc", "units": 5}


def test_all_layers_can_be_described() -> None:
    assert {"Convolution", "Dropout", "LocalResponseNormalisation"} <= layer_kinds().keys()
    assert "Layer" not in layer_kinds()
    assert "Pooling" not in layer_kinds()


def _changed(**changes: Any) -> str:
    return json.dumps({**json.loads(network_to_json(NETWORK)), **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "net.json is no JSON: .*expected a network's description"),
        ("[" * 100_000, "net.json is no JSON"),
        (_changed().replace("0.01", "NaN"), "net.json is no JSON: NaN is no number of JSON"),
        (_changed().replace("0.01", "1e400"), "net.json is no JSON: 1e400 is no number"),
        ("[]", "no network's description of format 1, it has list: expected format, input_shape"),
        ("{}", "it has .*: expected format"),
        (_changed(format=2), "no network's description of format 1"),
        (_changed(name=3), "net.json: name: Input should be a valid string, but it is 3"),
        (_changed(input_shape=[8, 8]), "input_shape: 2: Field required"),
        (_changed(input_shape=[8, 8, 0]), "input shape .*expected .height, width, channels."),
        (_changed(layers={}), "layers: Input should be a valid array"),
        (_changed(layers=[3]), "layer 0: Input should be an object"),
        (_changed(layers=[{"kind": "Relu"}]), "layer 0: unknown kind 'Relu'.*'ReLU'"),
        (_changed(layers=[{"kind": "ReLU"}]), r"layer 0 \(ReLU 'None'\): name: Field required"),
        (
            _changed(layers=[{"kind": "ReLU", "name": "a", "slop": 1.0}]),
            r"layer 0 \(ReLU 'a'\): unknown setting 'slop'.*'slope'",
        ),
        (
            _changed(layers=[{"kind": "Dense", "name": "a", "units": "3"}]),
            r"\(Dense 'a'\): units: Input should be a valid integer, but it is '3'",
        ),
        (_changed(layers=[{"kind": "Dense", "name": "a", "units": 0}]), "'a': units = 0, expected"),
        (_changed(outputs=[{"layer": "nowhere"}]), "unknown output of network 'small' 'nowhere'"),
    ],
)
def test_what_is_no_description_is_named(text: str, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        network_from_json(text, "net.json")
