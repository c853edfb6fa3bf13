"""What a layer says of its parameters."""

from __future__ import annotations

import math

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers.parameter import (
    CAFFE_BIAS,
    PLAIN,
    Initial,
    Multipliers,
    ParameterSpec,
    initial_weights,
    weights_and_bias,
)


def test_spec_knows_its_size_and_its_layer() -> None:
    spec = ParameterSpec("block/conv.weights", (20, 3, 5, 4), "weights")
    assert (spec.size, spec.layer, spec.is_statistic) == (1200, "block/conv", False)
    assert ParameterSpec(
        "n.running_mean", (3,), "running_mean", statistic_momentum=0.0
    ).is_statistic


def test_weights_come_before_the_bias_each_with_its_own_multipliers() -> None:
    weights, bias = weights_and_bias(
        "c", (8, 3, 2, 2), "msra", 0.2, (Multipliers(3, 4), CAFFE_BIAS)
    )
    assert (weights.name, weights.shape, weights.role) == ("c.weights", (8, 3, 2, 2), "weights")
    assert (bias.name, bias.shape, bias.role) == ("c.bias", (8,), "bias")
    assert (weights.learning_rate_multiplier, weights.decay_multiplier) == (3, 4)
    assert (bias.learning_rate_multiplier, bias.decay_multiplier) == (2, 0)
    assert weights.initial == Initial("normal", math.sqrt(2 / 12))
    assert bias.initial == Initial("constant", 0.2)


def test_bias_can_be_left_out() -> None:
    (weights,) = weights_and_bias("d", (8, 3), "xavier", None, (PLAIN, PLAIN))
    assert weights.role == "weights"


@pytest.mark.parametrize(
    ("initialiser", "initial"),
    [
        ("xavier", Initial("uniform", 0.5)),
        ("msra", Initial("normal", math.sqrt(1 / 6))),
        ("gaussian:0.01", Initial("normal", 0.01)),
        ("gaussian:1e-4", Initial("normal", 1e-4)),
        ("uniform:0.1", Initial("uniform", 0.1)),
        ("constant:-0.5", Initial("constant", -0.5)),
        ("constant:0", Initial("constant", 0.0)),
    ],
)
def test_initialiser_follows_from_the_number_of_inputs(initialiser: str, initial: Initial) -> None:
    assert initial_weights("c", initialiser, fan_in=12) == initial


@pytest.mark.parametrize(
    ("initialiser", "message"),
    [
        ("xaver", "unknown initialiser 'xaver': expected one of .* did you mean 'xavier'"),
        ("gaussian:", "'gaussian:', expected a number above 0 behind the colon, as in 'g"),
        ("gaussian:0", "'gaussian:0', expected a number above"),
        ("gaussian:-1", "'gaussian:-1', expected a number above"),
        ("gaussian:nan", "'gaussian:nan', expected a number above"),
        ("gaussian:inf", "'gaussian:inf', expected a number above"),
        ("uniform:0", "'uniform:0', expected a number above 0"),
        ("constant:inf", "'constant:inf', expected a number behind"),
        ("gaussian:big", "'gaussian:big', expected a number above"),
    ],
)
def test_initialiser_that_is_unknown_is_refused(initialiser: str, message: str) -> None:
    with pytest.raises(NetworkError, match=f"layer 'c': .*{message}"):
        initial_weights("c", initialiser, fan_in=12)
