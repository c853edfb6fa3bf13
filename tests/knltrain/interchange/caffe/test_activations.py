from __future__ import annotations

import pytest

from knltrain.network.layers import Activation, Flatten, Multipliers, PReLU

from .prototxts import layer, layers, net


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", PReLU("top")),
        ("prelu_param { filler { type: 'constant' value: 0.1 } }", PReLU("top", False, 0.1)),
        ("prelu_param { channel_shared: true filler { } }", PReLU("top", True, 0.0)),
        (
            "param { lr_mult: 2 decay_mult: 0 }",
            PReLU("top", multipliers=Multipliers(2.0, 0.0)),
        ),
    ],
)
def test_slopes_that_are_learned(settings: str, expected: PReLU) -> None:
    assert layers(layer("PReLU", settings)) == (expected,)


@pytest.mark.parametrize(
    ("kind", "old", "oldest", "function"),
    [("Sigmoid", "SIGMOID", "sigmoid", "sigmoid"), ("TanH", "TANH", "tanh", "tanh")],
)
def test_activations_are_ours_in_all_forms(kind: str, old: str, oldest: str, function: str) -> None:
    settings = f"{kind.lower()}_param {{ engine: CAFFE }}"
    assert layers(layer(kind, settings, "data", "a")) == (Activation("a", function),)
    in_place = 'name: "a" bottom: "data" top: "data"'
    inputs = 'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8\n'
    v1 = f"layers {{ {in_place} type: {old} }}"
    v0 = f"layers {{ layer {{ name: 'a' type: '{oldest}' }} bottom: 'data' top: 'data' }}"
    for text in (v1, v0):
        assert net(inputs + text).network.layers == (Activation("a", function),)


def test_slopes_of_flattened_maps_are_those_of_units() -> None:
    text = layer("Flatten", "", "data", "flat") + layer("PReLU", "", "flat")
    assert layers(text) == (Flatten("images/flat"), PReLU("top"))
